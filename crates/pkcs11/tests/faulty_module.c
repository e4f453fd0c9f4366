/* A PKCS #11 module that is SoftHSM with faults. The file FAULTS/mode says which:
 *
 *   ok               none
 *   hang             C_Sign and C_Decrypt wait until the mode changes
 *   hold             those which hang go on to do so, and others do not begin to
 *   hang-open        C_OpenSession waits until the mode changes
 *   abort            C_Sign ends the process
 *   wrong            C_Sign and C_Decrypt change a bit of their result
 *   short            C_Decrypt leaves zeros at the beginning of its result away
 *   sign HEX         C_Sign and C_Decrypt return this error
 *   sign-once HEX    ... the next time; then the mode is "ok"
 *   login HEX        C_Login returns this error
 *   changed-pin      C_Sign says that the session is gone, and C_Login that the PIN is wrong
 *   open HEX         C_OpenSession returns this error
 *   no-padding       the padding mechanisms of RSA are unknown
 *   flags HEX        C_GetTokenInfo shows these flags too
 *
 * The names of calls that matter are appended to FAULTS/calls. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef unsigned long ulong;
typedef ulong (*call_1)(void *);
typedef ulong (*call_2)(ulong, void *);
typedef ulong (*call_3)(ulong, void *, ulong);
typedef ulong (*call_4)(ulong, ulong, void *, ulong);
typedef ulong (*call_5)(ulong, void *, ulong, void *, ulong *);
typedef ulong (*call_open)(ulong, ulong, void *, void *, ulong *);

enum { INITIALIZE = 0, FINALIZE = 1, GET_TOKEN_INFO = 6, OPEN_SESSION = 12, LOGIN = 18, DECRYPT = 34, SIGN_INIT = 42, SIGN = 43 };
enum { FLAGS_OFFSET = 96 };

struct functions {
  unsigned char version[2];
  void *call[68];
};

static struct functions real, faulty;

static const char *path(const char *name) {
  static __thread char text[4096];
  snprintf(text, sizeof text, "%s/%s", getenv("FAULTS"), name);
  return text;
}

/* The mode, and its number. */
static const char *mode(ulong *number) {
  static __thread char text[64];
  memset(text, 0, sizeof text);
  *number = 0;
  int file = open(path("mode"), O_RDONLY);
  if (file >= 0) {
    if (read(file, text, sizeof text - 1) < 0) text[0] = 0;
    close(file);
  }
  char *end = strchr(text, ' ');
  if (end) {
    *end = 0;
    *number = strtoul(end + 1, NULL, 16);
  }
  return text;
}

static int is(const char *name, ulong *number) { return strcmp(mode(number), name) == 0; }

static void note(const char *name) {
  int file = open(path("calls"), O_WRONLY | O_CREAT | O_APPEND, 0600);
  if (file < 0) return;
  char line[64];
  int length = snprintf(line, sizeof line, "%s\n", name);
  if (write(file, line, length) < 0) abort();
  close(file);
}

static void hang(const char *name) {
  ulong number;
  if (!is(name, &number)) return;
  note("hang");
  while (is(name, &number) || is("hold", &number)) usleep(2000);
}

/* What is wrong with an operation, or 0. */
static ulong fault(void) {
  ulong error;
  hang("hang");
  if (is("abort", &error)) abort();
  if (is("sign", &error)) return error;
  if (is("changed-pin", &error)) return 0xb3; /* CKR_SESSION_HANDLE_INVALID */
  if (is("sign-once", &error)) {
    ulong once = error;
    int file = open(path("mode"), O_WRONLY | O_TRUNC);
    if (file < 0 || write(file, "ok", 2) != 2) abort();
    close(file);
    return once;
  }
  return 0;
}

static ulong operate(int which, ulong session, void *input, ulong length, void *output, ulong *got) {
  ulong error = output ? fault() : 0;
  if (error) {
    /* The operation ends with an error, so it must end in the session too. */
    unsigned char ignored[4096];
    ulong room = sizeof ignored;
    ((call_5)real.call[which])(session, input, length, ignored, &room);
    return error;
  }
  ulong code = ((call_5)real.call[which])(session, input, length, output, got);
  ulong number;
  while (which == DECRYPT && output && code == 0 && is("short", &number) && *got && *(char *)output == 0)
    memmove(output, (char *)output + 1, --*got);
  if (output && code == 0 && is("wrong", &number)) ((unsigned char *)output)[*got / 2] ^= 1;
  return code;
}

static ulong sign(ulong session, void *input, ulong length, void *output, ulong *got) {
  if (output) note("sign");
  return operate(SIGN, session, input, length, output, got);
}

static ulong decrypt(ulong session, void *input, ulong length, void *output, ulong *got) {
  if (output) note("decrypt");
  return operate(DECRYPT, session, input, length, output, got);
}

static ulong sign_init(ulong session, void *mechanism, ulong key) {
  ulong kind = *(ulong *)mechanism, number;
  if (is("no-padding", &number) && (kind == 1 || kind == 0xd)) return 0x70; /* CKR_MECHANISM_INVALID */
  if (kind == 3) note("raw");
  return ((call_3)real.call[SIGN_INIT])(session, mechanism, key);
}

static ulong login(ulong session, ulong user, void *pin, ulong length) {
  ulong error;
  note("login");
  if (is("login", &error)) return error;
  if (is("changed-pin", &error)) return 0xa0; /* CKR_PIN_INCORRECT */
  return ((call_4)real.call[LOGIN])(session, user, pin, length);
}

static ulong open_session(ulong slot, ulong flags, void *application, void *notify, ulong *session) {
  ulong error;
  note("open");
  hang("hang-open");
  if (is("open", &error)) return error;
  return ((call_open)real.call[OPEN_SESSION])(slot, flags, application, notify, session);
}

static ulong token_info(ulong slot, void *info) {
  ulong code = ((call_2)real.call[GET_TOKEN_INFO])(slot, info), flags;
  if (code == 0 && is("flags", &flags)) *(ulong *)((char *)info + FLAGS_OFFSET) |= flags;
  return code;
}

static ulong initialize(void *arguments) {
  note("initialize");
  return ((call_1)real.call[INITIALIZE])(arguments);
}

ulong C_GetFunctionList(struct functions **list) {
  void *library = dlopen(getenv("SOFTHSM2_MODULE"), RTLD_NOW | RTLD_LOCAL);
  ulong (*get)(struct functions **) = library ? (ulong (*)(struct functions **))dlsym(library, "C_GetFunctionList") : NULL;
  struct functions *found;
  if (!get || get(&found) != 0) return 5; /* CKR_GENERAL_ERROR */
  real = *found;
  faulty = real;
  faulty.call[INITIALIZE] = initialize;
  faulty.call[GET_TOKEN_INFO] = token_info;
  faulty.call[OPEN_SESSION] = open_session;
  faulty.call[LOGIN] = login;
  faulty.call[DECRYPT] = decrypt;
  faulty.call[SIGN_INIT] = sign_init;
  faulty.call[SIGN] = sign;
  *list = &faulty;
  return 0;
}
