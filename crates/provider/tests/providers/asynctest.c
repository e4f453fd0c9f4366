/*
 * An OpenSSL provider for tests: RSA and ECDSA by OpenSSL's own code on threads
 * of the provider, while the jobs of the program are paused. It behaves like a
 * card with a driver, and misbehaves when it is told to.
 *
 * Parameters, in its section of a configuration file:
 *
 *   wake         how a job is woken: "fd", "callback", or "both" (default "fd")
 *   pause        "no": computes on the calling thread
 *   threads      threads that compute (default 2)
 *   latency_us   an answer comes this long after the result is known
 *   hold         answers come when this many requests are there, in reverse order
 *   ring         the most requests at a time; more are told to try again
 *   fail_every   each so manieth request fails
 *   wrong_every  each so manieth result is wrong
 *   hang_every   each so manieth request is not answered ...
 *   hang_first   the first so many requests are not answered ...
 *   block_first  the first so many requests do not return ...
 *                ... until a message that begins with "release" is signed
 *   remember     "yes": a result is computed once and remembered, so that a card
 *                costs this machine nothing
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <openssl/async.h>
#include <openssl/core.h>
#include <openssl/core_dispatch.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <openssl/provider.h>
#include <openssl/rsa.h>

#define MAX_RESULT 1024

struct request {
    struct request *next;
    struct card *card;
    /* What to compute: a signature, or without `md` and `is_sign` a decryption. */
    EVP_PKEY *key;
    int is_sign, is_pss;
    char md[32];
    unsigned char *input;
    size_t input_length;
    /* Its number, from 1. */
    unsigned long number;
    /* The job that waits. */
    ASYNC_WAIT_CTX *wait;
    int fd;
    struct timespec due;
    /* The answer. */
    int is_ok, is_done;
    unsigned char output[MAX_RESULT];
    size_t output_length;
};

struct list {
    struct request *first, *last;
    size_t length;
};

struct card {
    const OSSL_CORE_HANDLE *handle;
    OSSL_FUNC_core_get_params_fn *get_params;
    /* Where OpenSSL's own provider computes. */
    OSSL_LIB_CTX *own;
    int by_fd, by_callback, pauses, remembers;
    unsigned long latency_us, hold, ring, fail_every, wrong_every, hang_every;
    unsigned long hang_first, block_first;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int is_stopping;
    pthread_t *threads;
    size_t thread_count;
    /* Requests: to compute, to answer at a time, held back, not to answer. */
    struct list to_compute, timed, held, hanging;
    unsigned long numbers, outstanding, releases;
    struct request *remembered;
};

static void append(struct list *list, struct request *request)
{
    request->next = NULL;
    if (list->last != NULL)
        list->last->next = request;
    else
        list->first = request;
    list->last = request;
    list->length++;
}

static struct request *take_first(struct list *list)
{
    struct request *request = list->first;

    if (request != NULL) {
        list->first = request->next;
        if (list->first == NULL)
            list->last = NULL;
        list->length--;
    }
    return request;
}

/* Computing. */

static void sign_now(struct request *request)
{
    EVP_MD_CTX *digesting = EVP_MD_CTX_new();
    EVP_PKEY_CTX *key_ctx = NULL;

    request->output_length = sizeof(request->output);
    request->is_ok = digesting != NULL
        && EVP_DigestSignInit_ex(digesting, &key_ctx, request->md, request->card->own, NULL,
                                 request->key, NULL) == 1
        && (!request->is_pss
            || (EVP_PKEY_CTX_set_rsa_padding(key_ctx, RSA_PKCS1_PSS_PADDING) == 1
                && EVP_PKEY_CTX_set_rsa_pss_saltlen(key_ctx, RSA_PSS_SALTLEN_DIGEST) == 1))
        && EVP_DigestSign(digesting, request->output, &request->output_length, request->input,
                          request->input_length) == 1;
    EVP_MD_CTX_free(digesting);
}

static void decrypt_now(struct request *request)
{
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_pkey(request->card->own, request->key, NULL);

    request->output_length = sizeof(request->output);
    request->is_ok = ctx != NULL
        && EVP_PKEY_decrypt_init(ctx) == 1
        && EVP_PKEY_CTX_set_rsa_padding(ctx, RSA_NO_PADDING) == 1
        && EVP_PKEY_decrypt(ctx, request->output, &request->output_length, request->input,
                            request->input_length) == 1;
    EVP_PKEY_CTX_free(ctx);
}

static int is_each(unsigned long every, unsigned long number)
{
    return every != 0 && number != 0 && number % every == 0;
}

static int is_first(unsigned long first, unsigned long number)
{
    return number != 0 && number <= first;
}

static int is_same(const struct request *one, const struct request *other)
{
    return one->key == other->key && one->is_sign == other->is_sign
        && one->is_pss == other->is_pss && strcmp(one->md, other->md) == 0
        && one->input_length == other->input_length
        && memcmp(one->input, other->input, one->input_length) == 0;
}

/* With the lock: whether the result is known. */
static int recall(struct card *card, struct request *request)
{
    struct request *known = card->remembered;

    if (known == NULL || !is_same(known, request))
        return 0;
    request->is_ok = known->is_ok;
    request->output_length = known->output_length;
    memcpy(request->output, known->output, known->output_length);
    return 1;
}

static void free_request(struct request *request)
{
    if (request == NULL)
        return;
    EVP_PKEY_free(request->key);
    free(request->input);
    free(request);
}

/* With the lock. */
static void remember(struct card *card, const struct request *request)
{
    struct request *known = malloc(sizeof(*known));

    if (known == NULL)
        return;
    *known = *request;
    known->input = malloc(request->input_length + 1);
    if (known->input == NULL) {
        free(known);
        return;
    }
    memcpy(known->input, request->input, request->input_length);
    EVP_PKEY_up_ref(known->key);
    free_request(card->remembered);
    card->remembered = known;
}

static void compute(struct request *request)
{
    struct card *card = request->card;

    if (request->is_sign)
        sign_now(request);
    else
        decrypt_now(request);
    if (is_each(card->fail_every, request->number))
        request->is_ok = 0;
    if (is_each(card->wrong_every, request->number))
        request->output[request->output_length - 1] ^= 1;
}

/* Answering. With the lock: the job cannot go on before its wake-up is complete, and does not
 * touch its descriptor any more after that. */
static void answer(struct request *request)
{
    struct card *card = request->card;
    ASYNC_callback_fn callback;
    void *argument;
    uint64_t one = 1;

    request->is_done = 1;
    card->outstanding--;
    if (card->by_callback && ASYNC_WAIT_CTX_get_callback(request->wait, &callback, &argument))
        callback(argument);
    if (request->fd >= 0 && write(request->fd, &one, sizeof(one)) != sizeof(one))
        perror("asynctest: write");
}

/* With the lock: what happens to a computed result. */
static void pass_on(struct request *request)
{
    struct card *card = request->card;

    if (card->releases == 0
        && (is_each(card->hang_every, request->number)
            || is_first(card->hang_first, request->number))) {
        append(&card->hanging, request);
    } else if (card->hold != 0) {
        append(&card->held, request);
        if (card->held.length >= card->hold) {
            /* In reverse order. */
            struct request *reversed = NULL, *next;

            while ((next = take_first(&card->held)) != NULL) {
                next->next = reversed;
                reversed = next;
            }
            while ((next = reversed) != NULL) {
                reversed = next->next;
                answer(next);
            }
        }
    } else if (card->latency_us != 0) {
        clock_gettime(CLOCK_REALTIME, &request->due);
        request->due.tv_nsec += (long)(card->latency_us % 1000000) * 1000;
        request->due.tv_sec += (time_t)(card->latency_us / 1000000);
        if (request->due.tv_nsec >= 1000000000) {
            request->due.tv_nsec -= 1000000000;
            request->due.tv_sec++;
        }
        append(&card->timed, request);
        if (card->timed.length == 1)
            pthread_cond_broadcast(&card->changed);
    } else {
        answer(request);
    }
}

static void *compute_requests(void *argument)
{
    struct card *card = argument;

    pthread_mutex_lock(&card->lock);
    while (!card->is_stopping) {
        struct request *request = take_first(&card->to_compute);

        if (request == NULL) {
            pthread_cond_wait(&card->changed, &card->lock);
            continue;
        }
        if (!card->remembers || !recall(card, request)) {
            pthread_mutex_unlock(&card->lock);
            compute(request);
            pthread_mutex_lock(&card->lock);
            if (card->remembers)
                remember(card, request);
        }
        pass_on(request);
    }
    pthread_mutex_unlock(&card->lock);
    return NULL;
}

/* Answers what is due: the latency is the same for all. */
static void *answer_in_time(void *argument)
{
    struct card *card = argument;

    pthread_mutex_lock(&card->lock);
    while (!card->is_stopping) {
        struct timespec now;
        struct request *first = card->timed.first;

        if (first == NULL) {
            pthread_cond_wait(&card->changed, &card->lock);
            continue;
        }
        clock_gettime(CLOCK_REALTIME, &now);
        if (now.tv_sec > first->due.tv_sec
            || (now.tv_sec == first->due.tv_sec && now.tv_nsec >= first->due.tv_nsec)) {
            answer(take_first(&card->timed));
        } else {
            struct timespec due = first->due;

            pthread_cond_timedwait(&card->changed, &card->lock, &due);
        }
    }
    pthread_mutex_unlock(&card->lock);
    return NULL;
}

/* With the lock. */
static void release(struct card *card)
{
    struct request *request;

    card->releases++;
    while ((request = take_first(&card->hanging)) != NULL)
        answer(request);
    pthread_cond_broadcast(&card->changed);
}

static void close_fd(ASYNC_WAIT_CTX *wait, const void *key, int fd, void *custom)
{
    (void)wait, (void)key, (void)custom;
    close(fd);
}

static int eventfd_of(ASYNC_WAIT_CTX *wait)
{
    static const char key;
    void *custom = NULL;
    int fd;

    if (ASYNC_WAIT_CTX_get_fd(wait, &key, &fd, &custom))
        return fd;
    fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (fd < 0 || ASYNC_WAIT_CTX_set_wait_fd(wait, &key, fd, NULL, close_fd) != 1)
        return -1;
    return fd;
}

/* Does a request of this thread's job; the result goes to `output`. */
static int do_request(struct card *card, EVP_PKEY *key, int is_sign, int is_pss, const char *md,
                      unsigned char *output, size_t *output_length, size_t output_size,
                      const unsigned char *input, size_t input_length)
{
    struct request *request = calloc(1, sizeof(*request));
    ASYNC_JOB *job = ASYNC_get_current_job();
    int is_ok;

    if (request == NULL || (request->input = malloc(input_length + 1)) == NULL) {
        free(request);
        return 0;
    }
    request->card = card;
    request->key = key;
    EVP_PKEY_up_ref(key);
    request->is_sign = is_sign;
    request->is_pss = is_pss;
    snprintf(request->md, sizeof(request->md), "%s", md);
    memcpy(request->input, input, input_length);
    request->input_length = input_length;
    request->fd = -1;

    pthread_mutex_lock(&card->lock);
    if (input_length >= 7 && memcmp(input, "release", 7) == 0)
        release(card);
    else
        request->number = ++card->numbers;
    if (is_first(card->block_first, request->number)) {
        while (card->releases == 0)
            pthread_cond_wait(&card->changed, &card->lock);
    }
    if (job == NULL || !card->pauses) {
        pthread_mutex_unlock(&card->lock);
        compute(request);
    } else {
        request->wait = ASYNC_get_wait_ctx(job);
        while (card->ring != 0 && card->outstanding >= card->ring) {
            pthread_mutex_unlock(&card->lock);
            ASYNC_WAIT_CTX_set_status(request->wait, ASYNC_STATUS_EAGAIN);
            ASYNC_pause_job();
            pthread_mutex_lock(&card->lock);
        }
        if (card->by_fd)
            request->fd = eventfd_of(request->wait);
        card->outstanding++;
        if (card->remembers && recall(card, request)) {
            pass_on(request);
        } else {
            append(&card->to_compute, request);
            pthread_cond_broadcast(&card->changed);
        }
        while (!request->is_done) {
            uint64_t count;

            pthread_mutex_unlock(&card->lock);
            ASYNC_WAIT_CTX_set_status(request->wait, ASYNC_STATUS_OK);
            ASYNC_pause_job();
            if (request->fd >= 0 && read(request->fd, &count, sizeof(count)) < 0
                && errno != EAGAIN)
                perror("asynctest: read");
            pthread_mutex_lock(&card->lock);
        }
        pthread_mutex_unlock(&card->lock);
    }
    is_ok = request->is_ok && request->output_length <= output_size;
    if (is_ok) {
        memcpy(output, request->output, request->output_length);
        *output_length = request->output_length;
    }
    free_request(request);
    return is_ok;
}

/* Keys: OpenSSL's own, in the context in which it computes. */

struct held_key {
    struct card *card;
    EVP_PKEY *key;
};

static void *key_new(void *provctx)
{
    struct held_key *held = calloc(1, sizeof(*held));

    if (held != NULL)
        held->card = provctx;
    return held;
}

static void key_free(void *keydata)
{
    struct held_key *held = keydata;

    if (held == NULL)
        return;
    EVP_PKEY_free(held->key);
    free(held);
}

static int key_has(const void *keydata, int selection)
{
    const struct held_key *held = keydata;

    (void)selection;
    return held != NULL && held->key != NULL;
}

static int key_match(const void *one, const void *other, int selection)
{
    (void)selection;
    return EVP_PKEY_eq(((const struct held_key *)one)->key,
                       ((const struct held_key *)other)->key) == 1;
}

static int key_import(void *keydata, int selection, const OSSL_PARAM params[], const char *type)
{
    struct held_key *held = keydata;
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(held->card->own, type, NULL);
    int is_ok = ctx != NULL && EVP_PKEY_fromdata_init(ctx) == 1
        && EVP_PKEY_fromdata(ctx, &held->key, selection, (OSSL_PARAM *)params) == 1;

    EVP_PKEY_CTX_free(ctx);
    return is_ok;
}

static int rsa_import(void *keydata, int selection, const OSSL_PARAM params[])
{
    return key_import(keydata, selection, params, "RSA");
}

static int ec_import(void *keydata, int selection, const OSSL_PARAM params[])
{
    return key_import(keydata, selection, params, "EC");
}

static int key_export(void *keydata, int selection, OSSL_CALLBACK *callback, void *argument)
{
    struct held_key *held = keydata;
    OSSL_PARAM *params = NULL;
    int is_ok;

    /* As from a card: the private numbers stay. */
    selection &= ~OSSL_KEYMGMT_SELECT_PRIVATE_KEY;
    if (EVP_PKEY_todata(held->key, selection, &params) != 1)
        return 0;
    is_ok = callback(params, argument);
    OSSL_PARAM_free(params);
    return is_ok;
}

static const OSSL_PARAM *key_types(int selection)
{
    static const OSSL_PARAM types[] = {
        OSSL_PARAM_BN(OSSL_PKEY_PARAM_RSA_N, NULL, 0),
        OSSL_PARAM_BN(OSSL_PKEY_PARAM_RSA_E, NULL, 0),
        OSSL_PARAM_BN(OSSL_PKEY_PARAM_RSA_D, NULL, 0),
        OSSL_PARAM_utf8_string(OSSL_PKEY_PARAM_GROUP_NAME, NULL, 0),
        OSSL_PARAM_octet_string(OSSL_PKEY_PARAM_PUB_KEY, NULL, 0),
        OSSL_PARAM_BN(OSSL_PKEY_PARAM_PRIV_KEY, NULL, 0),
        OSSL_PARAM_END
    };

    (void)selection;
    return types;
}

static int key_get_params(void *keydata, OSSL_PARAM params[])
{
    return EVP_PKEY_get_params(((struct held_key *)keydata)->key, params);
}

static const OSSL_PARAM *key_gettable_params(void *provctx)
{
    static const OSSL_PARAM params[] = {
        OSSL_PARAM_int(OSSL_PKEY_PARAM_BITS, NULL),
        OSSL_PARAM_int(OSSL_PKEY_PARAM_SECURITY_BITS, NULL),
        OSSL_PARAM_int(OSSL_PKEY_PARAM_MAX_SIZE, NULL),
        OSSL_PARAM_utf8_string(OSSL_PKEY_PARAM_DEFAULT_DIGEST, NULL, 0),
        OSSL_PARAM_utf8_string(OSSL_PKEY_PARAM_GROUP_NAME, NULL, 0),
        OSSL_PARAM_END
    };

    (void)provctx;
    return params;
}

static const char *ec_operation_name(int operation)
{
    return operation == OSSL_OP_SIGNATURE ? "ECDSA" : NULL;
}

#define FUNCTION(id, function) { id, (void (*)(void))(function) }
#define KEY_FUNCTIONS(import) \
    FUNCTION(OSSL_FUNC_KEYMGMT_NEW, key_new), \
    FUNCTION(OSSL_FUNC_KEYMGMT_FREE, key_free), \
    FUNCTION(OSSL_FUNC_KEYMGMT_HAS, key_has), \
    FUNCTION(OSSL_FUNC_KEYMGMT_MATCH, key_match), \
    FUNCTION(OSSL_FUNC_KEYMGMT_IMPORT, import), \
    FUNCTION(OSSL_FUNC_KEYMGMT_IMPORT_TYPES, key_types), \
    FUNCTION(OSSL_FUNC_KEYMGMT_EXPORT, key_export), \
    FUNCTION(OSSL_FUNC_KEYMGMT_EXPORT_TYPES, key_types), \
    FUNCTION(OSSL_FUNC_KEYMGMT_GET_PARAMS, key_get_params), \
    FUNCTION(OSSL_FUNC_KEYMGMT_GETTABLE_PARAMS, key_gettable_params)

static const OSSL_DISPATCH rsa_key_functions[] = { KEY_FUNCTIONS(rsa_import), { 0, NULL } };
static const OSSL_DISPATCH ec_key_functions[] = {
    KEY_FUNCTIONS(ec_import),
    FUNCTION(OSSL_FUNC_KEYMGMT_QUERY_OPERATION_NAME, ec_operation_name),
    { 0, NULL }
};

/* Signatures and decryption. */

struct operation {
    struct card *card;
    struct held_key *held;
    int is_pss;
    char md[32];
};

static void *operation_new(void *provctx, const char *properties)
{
    struct operation *operation = calloc(1, sizeof(*operation));

    (void)properties;
    if (operation != NULL)
        operation->card = provctx;
    return operation;
}

static void *decryption_new(void *provctx)
{
    return operation_new(provctx, NULL);
}

static void operation_free(void *ctx)
{
    free(ctx);
}

static int operation_set_params(void *ctx, const OSSL_PARAM params[])
{
    struct operation *operation = ctx;
    const OSSL_PARAM *mode;
    int number;

    if (params == NULL)
        return 1;
    mode = OSSL_PARAM_locate_const(params, OSSL_PKEY_PARAM_PAD_MODE);
    if (mode == NULL)
        return 1;
    if (mode->data_type == OSSL_PARAM_UTF8_STRING)
        operation->is_pss = strcasecmp(mode->data, OSSL_PKEY_RSA_PAD_MODE_PSS) == 0;
    else if (OSSL_PARAM_get_int(mode, &number))
        operation->is_pss = number == RSA_PKCS1_PSS_PADDING;
    return 1;
}

static const OSSL_PARAM *operation_settable_params(void *ctx, void *provctx)
{
    static const OSSL_PARAM params[] = {
        OSSL_PARAM_utf8_string(OSSL_PKEY_PARAM_PAD_MODE, NULL, 0),
        OSSL_PARAM_utf8_string(OSSL_PKEY_PARAM_RSA_PSS_SALTLEN, NULL, 0),
        OSSL_PARAM_END
    };

    (void)ctx, (void)provctx;
    return params;
}

static int sign_init(void *ctx, const char *md, void *keydata, const OSSL_PARAM params[])
{
    struct operation *operation = ctx;

    operation->held = keydata;
    snprintf(operation->md, sizeof(operation->md), "%s", md == NULL ? "" : md);
    return operation_set_params(ctx, params);
}

static int sign(void *ctx, unsigned char *signature, size_t *length, size_t size,
                const unsigned char *message, size_t message_length)
{
    struct operation *operation = ctx;

    if (signature == NULL) {
        *length = (size_t)EVP_PKEY_get_size(operation->held->key);
        return 1;
    }
    return do_request(operation->card, operation->held->key, 1, operation->is_pss, operation->md,
                      signature, length, size, message, message_length);
}

static int decrypt_init(void *ctx, void *keydata, const OSSL_PARAM params[])
{
    return sign_init(ctx, NULL, keydata, params);
}

static int decrypt(void *ctx, unsigned char *output, size_t *length, size_t size,
                   const unsigned char *input, size_t input_length)
{
    struct operation *operation = ctx;

    if (output == NULL) {
        *length = (size_t)EVP_PKEY_get_size(operation->held->key);
        return 1;
    }
    return do_request(operation->card, operation->held->key, 0, 0, "", output, length, size, input,
                      input_length);
}

static const OSSL_DISPATCH signature_functions[] = {
    FUNCTION(OSSL_FUNC_SIGNATURE_NEWCTX, operation_new),
    FUNCTION(OSSL_FUNC_SIGNATURE_FREECTX, operation_free),
    FUNCTION(OSSL_FUNC_SIGNATURE_DIGEST_SIGN_INIT, sign_init),
    FUNCTION(OSSL_FUNC_SIGNATURE_DIGEST_SIGN, sign),
    FUNCTION(OSSL_FUNC_SIGNATURE_SET_CTX_PARAMS, operation_set_params),
    FUNCTION(OSSL_FUNC_SIGNATURE_SETTABLE_CTX_PARAMS, operation_settable_params),
    { 0, NULL }
};

static const OSSL_DISPATCH decryption_functions[] = {
    FUNCTION(OSSL_FUNC_ASYM_CIPHER_NEWCTX, decryption_new),
    FUNCTION(OSSL_FUNC_ASYM_CIPHER_FREECTX, operation_free),
    FUNCTION(OSSL_FUNC_ASYM_CIPHER_DECRYPT_INIT, decrypt_init),
    FUNCTION(OSSL_FUNC_ASYM_CIPHER_DECRYPT, decrypt),
    FUNCTION(OSSL_FUNC_ASYM_CIPHER_SET_CTX_PARAMS, operation_set_params),
    FUNCTION(OSSL_FUNC_ASYM_CIPHER_SETTABLE_CTX_PARAMS, operation_settable_params),
    { 0, NULL }
};

/* The provider. */

static const OSSL_ALGORITHM key_algorithms[] = {
    { "RSA:rsaEncryption:1.2.840.113549.1.1.1", "provider=asynctest", rsa_key_functions, "" },
    { "EC:id-ecPublicKey:1.2.840.10045.2.1", "provider=asynctest", ec_key_functions, "" },
    { NULL, NULL, NULL, NULL }
};
static const OSSL_ALGORITHM signature_algorithms[] = {
    { "RSA:rsaEncryption:1.2.840.113549.1.1.1", "provider=asynctest", signature_functions, "" },
    { "ECDSA", "provider=asynctest", signature_functions, "" },
    { NULL, NULL, NULL, NULL }
};
static const OSSL_ALGORITHM decryption_algorithms[] = {
    { "RSA:rsaEncryption:1.2.840.113549.1.1.1", "provider=asynctest", decryption_functions, "" },
    { NULL, NULL, NULL, NULL }
};

static const OSSL_ALGORITHM *query_operation(void *provctx, int operation, int *no_cache)
{
    (void)provctx;
    *no_cache = 0;
    switch (operation) {
    case OSSL_OP_KEYMGMT:
        return key_algorithms;
    case OSSL_OP_SIGNATURE:
        return signature_algorithms;
    case OSSL_OP_ASYM_CIPHER:
        return decryption_algorithms;
    default:
        return NULL;
    }
}

static void teardown(void *provctx)
{
    struct card *card = provctx;
    size_t i;

    pthread_mutex_lock(&card->lock);
    card->is_stopping = 1;
    pthread_cond_broadcast(&card->changed);
    pthread_mutex_unlock(&card->lock);
    for (i = 0; i < card->thread_count; i++)
        pthread_join(card->threads[i], NULL);
    free(card->threads);
    free_request(card->remembered);
    OSSL_LIB_CTX_free(card->own);
    pthread_cond_destroy(&card->changed);
    pthread_mutex_destroy(&card->lock);
    free(card);
}

static const char *text_parameter(struct card *card, const char *name, const char *otherwise)
{
    char *value = NULL;
    OSSL_PARAM params[] = { OSSL_PARAM_utf8_ptr(NULL, NULL, 0), OSSL_PARAM_END };

    params[0].key = name;
    params[0].data = &value;
    params[0].data_size = sizeof(value);
    if (card->get_params == NULL || card->get_params(card->handle, params) != 1 || value == NULL)
        return otherwise;
    return value;
}

static unsigned long number_parameter(struct card *card, const char *name, const char *otherwise)
{
    return strtoul(text_parameter(card, name, otherwise), NULL, 10);
}

static const OSSL_DISPATCH provider_functions[] = {
    FUNCTION(OSSL_FUNC_PROVIDER_TEARDOWN, teardown),
    FUNCTION(OSSL_FUNC_PROVIDER_QUERY_OPERATION, query_operation),
    { 0, NULL }
};

int OSSL_provider_init(const OSSL_CORE_HANDLE *handle, const OSSL_DISPATCH *in,
                       const OSSL_DISPATCH **out, void **provctx)
{
    struct card *card = calloc(1, sizeof(*card));
    const char *wake;
    size_t i, threads;

    if (card == NULL)
        return 0;
    card->handle = handle;
    for (; in->function_id != 0; in++)
        if (in->function_id == OSSL_FUNC_CORE_GET_PARAMS)
            card->get_params = OSSL_FUNC_core_get_params(in);
    wake = text_parameter(card, "wake", "fd");
    card->by_fd = strcmp(wake, "callback") != 0;
    card->by_callback = strcmp(wake, "fd") != 0;
    card->pauses = strcmp(text_parameter(card, "pause", "yes"), "yes") == 0;
    card->remembers = strcmp(text_parameter(card, "remember", "no"), "yes") == 0;
    card->latency_us = number_parameter(card, "latency_us", "0");
    card->hold = number_parameter(card, "hold", "0");
    card->ring = number_parameter(card, "ring", "0");
    card->fail_every = number_parameter(card, "fail_every", "0");
    card->wrong_every = number_parameter(card, "wrong_every", "0");
    card->hang_every = number_parameter(card, "hang_every", "0");
    card->hang_first = number_parameter(card, "hang_first", "0");
    card->block_first = number_parameter(card, "block_first", "0");
    pthread_mutex_init(&card->lock, NULL);
    pthread_cond_init(&card->changed, NULL);
    card->own = OSSL_LIB_CTX_new();
    threads = number_parameter(card, "threads", "2");
    card->threads = calloc(threads + 1, sizeof(*card->threads));
    if (card->own == NULL || card->threads == NULL)
        return 0;
    for (i = 0; i <= threads; i++)
        if (pthread_create(&card->threads[card->thread_count], NULL,
                           i == 0 ? answer_in_time : compute_requests, card) == 0)
            card->thread_count++;
    *out = provider_functions;
    *provctx = card;
    return 1;
}
