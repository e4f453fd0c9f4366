<?php
// What the tests of fastcgi_pass ask PHP-FPM for: one action for each request.
function arg($name, $default = '') { return $_GET[$name] ?? $default; }

// Nothing is held back from here on.
function unbuffered() {
    while (ob_get_level() > 0) {
        ob_end_flush();
    }
}

// The same bytes wherever they are made: position n holds n * 7 + n / 256.
function bytes($count) {
    static $block = null;
    if ($block === null) {
        $block = '';
        for ($n = 0; $n < 65536; $n++) {
            $block .= chr(($n * 7 + intdiv($n, 256)) & 255);
        }
    }
    return substr(str_repeat($block, intdiv($count, 65536) + 1), 0, $count);
}

switch (arg('do')) {
case 'parameters':
    header('Content-Type: text/plain');
    ksort($_SERVER);
    foreach ($_SERVER as $name => $value) {
        if (is_string($value) && preg_match('/^(HTTP_|SCRIPT_|PATH_|REQUEST_(?!TIME)|QUERY_|CONTENT_|DOCUMENT_|SERVER_(NAME|PROTOCOL|ADDR)|HTTPS|X_|REDIRECT_STATUS|REMOTE_(ADDR|USER)|PHP_SELF)/', $name)) {
            echo "$name=$value\n";
        }
    }
    break;
case 'status':
    http_response_code((int) arg('code'));
    echo "body of " . arg('code') . "\n";
    break;
case 'location':
    header('Location: ' . arg('to'));
    echo "moved\n";
    break;
case 'headers':
    header('X-One: 1');
    header('Set-Cookie: a=1', false);
    header('Set-Cookie: b=2', false);
    header('Last-Modified: Tue, 09 Nov 2021 00:00:00 GMT');
    header('ETag: "abc"');
    header('Cache-Control: max-age=5');
    header('Content-Type: text/html; charset=koi8-r');
    echo "headers\n";
    break;
case 'length':
    header('Content-Length: ' . arg('says'));
    echo bytes((int) arg('sends'));
    break;
case 'echo':
    header('Content-Type: application/octet-stream');
    echo file_get_contents('php://input');
    break;
case 'digest':
    echo strlen($body = file_get_contents('php://input')), ' ', hash('sha256', $body), ' ', $_SERVER['CONTENT_LENGTH'] ?? '-', "\n";
    break;
case 'form':
    echo json_encode($_POST), ' ', isset($_FILES['f']) ? hash_file('sha256', $_FILES['f']['tmp_name']) : '-', "\n";
    break;
case 'bytes':
    header('Content-Type: application/octet-stream');
    if (arg('length')) {
        header('Content-Length: ' . arg('count'));
    }
    echo bytes((int) arg('count'));
    break;
case 'errors':
    error_log('first "quoted" warning.');
    error_log("second, of two\nlines");
    echo "complained\n";
    break;
case 'late_errors':
    unbuffered();
    echo "before\n";
    flush();
    error_log('too late for the head');
    echo "after\n";
    break;
case 'steps':
    // Goes on when the test lets it: a file appears.
    unbuffered();
    header('Content-Type: text/plain');
    for ($step = 1; $step <= 3; $step++) {
        echo "step $step\n";
        flush();
        $deadline = time() + 60;
        while (!file_exists(arg('dir') . "/step$step") && time() < $deadline) {
            clearstatcache();
            usleep(10000);
        }
    }
    break;
case 'accel':
    header('X-Accel-Redirect: ' . arg('to'));
    header('Content-Type: text/x-from-php');
    header('X-Lost: yes');
    header('Set-Cookie: kept=1');
    echo "not seen\n";
    break;
case 'bighead':
    header('X-Big: ' . str_repeat('x', (int) arg('count')));
    echo "big head\n";
    break;
case 'die':
    echo str_repeat('x', 100000);
    flush();
    posix_kill(getmypid(), 9);
    break;
case 'wait':
    // Until its client is gone, which a script learns when it writes.
    unbuffered();
    ignore_user_abort(true);
    file_put_contents(arg('dir') . '/begun', '');
    for ($n = 0; $n < 600 && !connection_aborted(); $n++) {
        usleep(100000);
        echo ' ';
        flush();
    }
    file_put_contents(arg('dir') . '/ended', connection_aborted() ? 'aborted' : 'alone');
    break;
case 'sleep':
    sleep((int) arg('seconds'));
    echo "slept\n";
    break;
case 'pid':
    echo getmypid(), "\n";
    break;
default:
    echo 'page ', $_SERVER['SCRIPT_NAME'], ' ', $_SERVER['REQUEST_METHOD'], ' [', $_SERVER['QUERY_STRING'], '] ', $_SERVER['PATH_INFO'] ?? '-', "\n";
}
