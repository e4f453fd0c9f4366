# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_sealane_bench_global_optspecs
    string join \n h/help V/version
end

function __fish_sealane_bench_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_sealane_bench_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_sealane_bench_using_subcommand
    set -l cmd (__fish_sealane_bench_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c sealane-bench -n "__fish_sealane_bench_needs_command" -s h -l help -d 'Print help'
complete -c sealane-bench -n "__fish_sealane_bench_needs_command" -s V -l version -d 'Print version'
complete -c sealane-bench -n "__fish_sealane_bench_needs_command" -f -a "load" -d 'Load one URL and report rate, latency and, with --pid, server CPU per operation'
complete -c sealane-bench -n "__fish_sealane_bench_needs_command" -f -a "idle" -d 'Hold idle connections after one request each and report the server\'s memory per connection'
complete -c sealane-bench -n "__fish_sealane_bench_needs_command" -f -a "compare" -d 'Alternate servers on one core with the same configuration and report ratios of CPU per operation'
complete -c sealane-bench -n "__fish_sealane_bench_needs_command" -f -a "storm" -d 'Alternate servers and report how an established connection fares while others do handshakes'
complete -c sealane-bench -n "__fish_sealane_bench_needs_command" -f -a "datagrams" -d 'Alternate servers on one core that pass datagrams (UDP) on, and report CPU per datagram'
complete -c sealane-bench -n "__fish_sealane_bench_needs_command" -f -a "report" -d 'Write a page with published tables beside what is measured here. Exit status 1: something has failed, and the page says what; 130: ended by a signal, with what was measured before'
complete -c sealane-bench -n "__fish_sealane_bench_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand load" -l address -d 'Connect to this address instead of resolving the URL\'s host' -r
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand load" -l status -d 'Status that every response must have' -r
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand load" -l length -d 'Length in bytes that every body must have' -r
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand load" -l protocol -d 'Pin the TLS version' -r -f -a "1.0\t'TLS 1.0'
1.1\t'TLS 1.1'
1.2\t'TLS 1.2'
1.3\t'TLS 1.3'"
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand load" -l suite -d 'Pin the suite: IANA name in TLS 1.3, OpenSSL\'s name below' -r
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand load" -l group -d 'Pin the key-exchange group' -r
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand load" -l key-type -d 'Pin the kind of certificate key' -r -f -a "rsa\t'RSA of any size'
p256\t'ECDSA on P-256'
p384\t'ECDSA on P-384'
ed25519\t'Ed25519'"
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand load" -l offer -d 'What is offered besides: nothing, or what browsers offer (TLS 1.2 and 1.3, AES-128-GCM and X25519MLKEM768 first, HTTP/2)' -r -f -a "pinned\t'Only what is pinned, so that the server has no choice'
browser\t'What browsers offer: TLS 1.2 and 1.3, all three suites with AES-128 first, X25519MLKEM768 before X25519 and the curves, HTTP/2 and HTTP/1.1. What is pinned must be chosen by the server'"
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand load" -l streams -d 'Concurrent requests on each connection of HTTP/3; each is an operation' -r
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand load" -l pid -d 'Process id of the server; its children are included' -r
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand load" -l cpus -d 'Cores for the generator, such as 0,1 (default: chosen by the kernel)' -r
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand load" -s c -l clients -d 'Concurrent clients' -r
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand load" -s t -l threads -d 'Event loops (threads) that run the clients' -r
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand load" -s s -l seconds -d 'Length of the measurement' -r
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand load" -s n -l operations -d 'Measure this many operations instead of a fixed time' -r
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand load" -l warm-up-seconds -d 'Length of the warm-up before it' -r
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand load" -l no-tickets -d 'Disable tickets, so that TLS 1.2 resumes by session id'
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand load" -l staple -d 'Ask for an OCSP response along with the certificate, and fail without one'
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand load" -l http3 -d 'Request over HTTP/3 (QUIC); the client closes the connections that are not kept'
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand load" -l json -d 'Print JSON instead of text'
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand load" -l close -d 'One connection per request'
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand load" -l resume -d 'Resume a session on every connection (implies --close)'
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand load" -l early-data -d 'Resume on every connection and send the request as early data (0-RTT); fails if the server accepts none'
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand load" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand idle" -l address -d 'Connect to this address instead of resolving the URL\'s host' -r
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand idle" -l status -d 'Status that every response must have' -r
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand idle" -l length -d 'Length in bytes that every body must have' -r
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand idle" -l protocol -d 'Pin the TLS version' -r -f -a "1.0\t'TLS 1.0'
1.1\t'TLS 1.1'
1.2\t'TLS 1.2'
1.3\t'TLS 1.3'"
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand idle" -l suite -d 'Pin the suite: IANA name in TLS 1.3, OpenSSL\'s name below' -r
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand idle" -l group -d 'Pin the key-exchange group' -r
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand idle" -l key-type -d 'Pin the kind of certificate key' -r -f -a "rsa\t'RSA of any size'
p256\t'ECDSA on P-256'
p384\t'ECDSA on P-384'
ed25519\t'Ed25519'"
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand idle" -l offer -d 'What is offered besides: nothing, or what browsers offer (TLS 1.2 and 1.3, AES-128-GCM and X25519MLKEM768 first, HTTP/2)' -r -f -a "pinned\t'Only what is pinned, so that the server has no choice'
browser\t'What browsers offer: TLS 1.2 and 1.3, all three suites with AES-128 first, X25519MLKEM768 before X25519 and the curves, HTTP/2 and HTTP/1.1. What is pinned must be chosen by the server'"
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand idle" -l streams -d 'Concurrent requests on each connection of HTTP/3; each is an operation' -r
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand idle" -l pid -d 'Process id of the server; its children are included' -r
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand idle" -l cpus -d 'Cores for the generator, such as 0,1 (default: chosen by the kernel)' -r
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand idle" -s c -l connections -d 'Connections to hold' -r
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand idle" -l hold-seconds -d 'How long to hold them before reading the memory' -r
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand idle" -l no-tickets -d 'Disable tickets, so that TLS 1.2 resumes by session id'
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand idle" -l staple -d 'Ask for an OCSP response along with the certificate, and fail without one'
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand idle" -l http3 -d 'Request over HTTP/3 (QUIC); the client closes the connections that are not kept'
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand idle" -l json -d 'Print JSON instead of text'
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand idle" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand compare" -l server -d 'A server: name=path of an nginx or sealane binary, or of what --kind says' -r
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand compare" -l kind -d 'What a server is if it does not read nginx.conf: name=h2o or name=haproxy' -r
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand compare" -l directives -d 'Directives for the http block of one server only: name=\'directive value;\'' -r
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand compare" -l rsa-directives -d 'Directives for the server blocks with an RSA key of one server only: name=\'directive value;\'' -r
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand compare" -l upstream-directives -d 'Directives for the upstream block of one server only: name=\'directive value;\'' -r
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand compare" -l events -d 'Directives for the events block of one server only: name=\'directive value;\'' -r
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand compare" -l main -d 'Directives outside of all blocks of one server only: name=\'directive value;\'' -r
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand compare" -l certificates -d 'Directory of the test certificates' -r -F
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand compare" -l work -d 'Directory for configurations, files and logs of the run' -r -F
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand compare" -l rounds -d 'Interleaved rounds' -r
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand compare" -l nice -d 'Niceness of servers and clients, such as -20 if others use the machine at the same time (requires root)' -r
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand compare" -l json -d 'Write all figures as JSON to this file, `-` for standard output' -r -F
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand compare" -l markdown -d 'Write the tables as Markdown to this file, `-` for standard output' -r -F
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand compare" -l case -d 'Cases to run, by default all except those of s2; `help` lists them' -r
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand compare" -l seconds -d 'Length of each measurement' -r
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand compare" -l server-cpu -d 'The single core of the servers (default: the last one); the generator gets the others' -r
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand compare" -l server-cores -d 'How many cores the servers get (the last ones), with a worker on each; a list such as 1,2 runs both in turn [default: 1]' -r
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand compare" -l keys -d 'How many responses the case zipf asks for' -r
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand compare" -l profile -d 'Sample each server with perf in one more measurement per case, into this directory' -r -F
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand compare" -l quick -d 'Fewer and shorter rounds: to check that everything works, not for publication'
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand compare" -l instructions -d 'Count each server\'s user-space instructions with perf, in one more measurement per case'
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand compare" -s h -l help -d 'Print help'
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand storm" -l server -d 'A server: name=path of an nginx or sealane binary, or of what --kind says' -r
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand storm" -l kind -d 'What a server is if it does not read nginx.conf: name=h2o or name=haproxy' -r
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand storm" -l directives -d 'Directives for the http block of one server only: name=\'directive value;\'' -r
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand storm" -l rsa-directives -d 'Directives for the server blocks with an RSA key of one server only: name=\'directive value;\'' -r
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand storm" -l upstream-directives -d 'Directives for the upstream block of one server only: name=\'directive value;\'' -r
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand storm" -l events -d 'Directives for the events block of one server only: name=\'directive value;\'' -r
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand storm" -l main -d 'Directives outside of all blocks of one server only: name=\'directive value;\'' -r
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand storm" -l certificates -d 'Directory of the test certificates' -r -F
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand storm" -l work -d 'Directory for configurations, files and logs of the run' -r -F
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand storm" -l rounds -d 'Interleaved rounds' -r
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand storm" -l nice -d 'Niceness of servers and clients, such as -20 if others use the machine at the same time (requires root)' -r
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand storm" -l json -d 'Write all figures as JSON to this file, `-` for standard output' -r -F
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand storm" -l markdown -d 'Write the tables as Markdown to this file, `-` for standard output' -r -F
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand storm" -l key -d 'Keys of the handshakes, such as rsa2048,p256 (default: all)' -r -f -a "rsa2048\t'RSA, 2048 bits'
rsa4096\t'RSA, 4096 bits'
p256\t'ECDSA on P-256'"
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand storm" -s c -l clients -d 'Clients that do handshakes' -r
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand storm" -l interval -d 'Milliseconds between the requests of the established connection' -r
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand storm" -l seconds -d 'Length of each storm' -r
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand storm" -l server-cores -d 'How many cores the servers get (the last ones), with a worker on each; a list such as 2,1 runs both in turn [default: 2 if there are 4, otherwise 1]' -r
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand storm" -l quick -d 'Fewer and shorter rounds: to check that everything works, not for publication'
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand storm" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand datagrams" -l server -d 'A server: name=path of an nginx or sealane binary' -r
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand datagrams" -l work -d 'Directory for configurations and logs of the run' -r -F
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand datagrams" -l rounds -d 'Interleaved rounds' -r
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand datagrams" -l seconds -d 'Length of each measurement' -r
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand datagrams" -s h -l help -d 'Print help'
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand report" -l sealane -d 'The binary of Sealane [default: the one next to this program, else the one in PATH]' -r -F
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand report" -l peer -d 'A server to compare with: name=path of an nginx binary, or of what --kind says' -r
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand report" -l kind -d 'What a peer is if it does not read nginx.conf: name=h2o or name=haproxy' -r
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand report" -l rounds -d 'Alternating rounds' -r
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand report" -l seconds -d 'Length of each measurement' -r
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand report" -l output -d 'The page; its measurements are saved beside it, with the ending .json' -r -F
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand report" -l chart -d 'Also write the chart at a glance, as an SVG of its own' -r -F
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand report" -l from -d 'Measure nothing: make the page of measurements that were saved' -r -F
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand report" -l certificates -d 'Directory of the test certificates, which are made if there are none (requires openssl) [default: "certificates" below --work]' -r -F
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand report" -l work -d 'Directory for configurations, files (2 GiB on the disk for s1) and logs [default: $XDG_CACHE_HOME/sealane-bench or ~/.cache/sealane-bench]' -r -F
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand report" -l nice -d 'Niceness of servers and clients, such as -20 if others use the machine at the same time (requires root)' -r
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand report" -l quick -d 'Fewer and shorter rounds: to see that everything works; the page says so'
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand report" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand help; and not __fish_seen_subcommand_from load idle compare storm datagrams report help" -f -a "load" -d 'Load one URL and report rate, latency and, with --pid, server CPU per operation'
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand help; and not __fish_seen_subcommand_from load idle compare storm datagrams report help" -f -a "idle" -d 'Hold idle connections after one request each and report the server\'s memory per connection'
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand help; and not __fish_seen_subcommand_from load idle compare storm datagrams report help" -f -a "compare" -d 'Alternate servers on one core with the same configuration and report ratios of CPU per operation'
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand help; and not __fish_seen_subcommand_from load idle compare storm datagrams report help" -f -a "storm" -d 'Alternate servers and report how an established connection fares while others do handshakes'
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand help; and not __fish_seen_subcommand_from load idle compare storm datagrams report help" -f -a "datagrams" -d 'Alternate servers on one core that pass datagrams (UDP) on, and report CPU per datagram'
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand help; and not __fish_seen_subcommand_from load idle compare storm datagrams report help" -f -a "report" -d 'Write a page with published tables beside what is measured here. Exit status 1: something has failed, and the page says what; 130: ended by a signal, with what was measured before'
complete -c sealane-bench -n "__fish_sealane_bench_using_subcommand help; and not __fish_seen_subcommand_from load idle compare storm datagrams report help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
