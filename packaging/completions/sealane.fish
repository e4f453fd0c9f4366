# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_sealane_global_optspecs
    string join \n h/help v/version V t T q s= p= e= c= g=
end

function __fish_sealane_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_sealane_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_sealane_using_subcommand
    set -l cmd (__fish_sealane_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c sealane -n "__fish_sealane_needs_command" -s s -d 'Send a signal to the running master process' -r -f -a "stop\t''
quit\t''
reopen\t''
reload\t''"
complete -c sealane -n "__fish_sealane_needs_command" -s p -d 'Read everything below this directory' -r -f -a "(__fish_complete_directories)"
complete -c sealane -n "__fish_sealane_needs_command" -s e -d 'Error log until the configuration names one, or stderr' -r -F
complete -c sealane -n "__fish_sealane_needs_command" -s c -d 'Configuration file' -r -F
complete -c sealane -n "__fish_sealane_needs_command" -s g -d 'Directives of the main context, each with its semicolon' -r
complete -c sealane -n "__fish_sealane_needs_command" -s h -s ? -l help -d 'Show help and exit'
complete -c sealane -n "__fish_sealane_needs_command" -s v -l version -d 'Show the version and exit'
complete -c sealane -n "__fish_sealane_needs_command" -s V -d 'Show the version and how it was built, with its paths, and exit'
complete -c sealane -n "__fish_sealane_needs_command" -s t -d 'Test the configuration and exit'
complete -c sealane -n "__fish_sealane_needs_command" -s T -d 'Test the configuration, print all of its files and exit'
complete -c sealane -n "__fish_sealane_needs_command" -s q -d 'With -t: say nothing but errors'
complete -c sealane -n "__fish_sealane_needs_command" -f -a "top" -d 'Shows a running server in the terminal, while it works'
complete -c sealane -n "__fish_sealane_needs_command" -f -a "status" -d 'Shows what a running server does and what is wrong with it'
complete -c sealane -n "__fish_sealane_needs_command" -f -a "certificates" -d 'Lists the certificates of a running server, those that end first at the top'
complete -c sealane -n "__fish_sealane_needs_command" -f -a "doctor" -d 'Checks what this machine supports for TLS, and how to improve it'
complete -c sealane -n "__fish_sealane_needs_command" -f -a "migrate" -d 'Checks an nginx configuration: what works, what has no effect, and what is refused'
complete -c sealane -n "__fish_sealane_needs_command" -f -a "takeover" -d 'Takes the place of a running nginx, with its configuration and its sockets'
complete -c sealane -n "__fish_sealane_needs_command" -f -a "ech-key" -d 'Makes a key for Encrypted Client Hello (ssl_ech_file) and prints its DNS record'
complete -c sealane -n "__fish_sealane_needs_command" -f -a "bench" -d 'Load generator and comparison of servers'
complete -c sealane -n "__fish_sealane_using_subcommand top" -s c -d 'Configuration file that the server was started with' -r -F
complete -c sealane -n "__fish_sealane_using_subcommand top" -s p -d 'Prefix path, as the server has it' -r -f -a "(__fish_complete_directories)"
complete -c sealane -n "__fish_sealane_using_subcommand top" -s g -d 'Global directives out of the configuration file, as the server has them' -r
complete -c sealane -n "__fish_sealane_using_subcommand top" -l socket -d 'Control socket of the server; without it, the configuration says where it is' -r -F
complete -c sealane -n "__fish_sealane_using_subcommand top" -s d -l delay -d 'Seconds between two looks at the server' -r
complete -c sealane -n "__fish_sealane_using_subcommand status" -s c -d 'Configuration file that the server was started with' -r -F
complete -c sealane -n "__fish_sealane_using_subcommand status" -s p -d 'Prefix path, as the server has it' -r -f -a "(__fish_complete_directories)"
complete -c sealane -n "__fish_sealane_using_subcommand status" -s g -d 'Global directives out of the configuration file, as the server has them' -r
complete -c sealane -n "__fish_sealane_using_subcommand status" -l socket -d 'Control socket of the server; without it, the configuration says where it is' -r -F
complete -c sealane -n "__fish_sealane_using_subcommand status" -l json -d 'Print everything that is counted, as JSON (docs/monitoring.md)'
complete -c sealane -n "__fish_sealane_using_subcommand certificates" -s c -d 'Configuration file that the server was started with' -r -F
complete -c sealane -n "__fish_sealane_using_subcommand certificates" -s p -d 'Prefix path, as the server has it' -r -f -a "(__fish_complete_directories)"
complete -c sealane -n "__fish_sealane_using_subcommand certificates" -s g -d 'Global directives out of the configuration file, as the server has them' -r
complete -c sealane -n "__fish_sealane_using_subcommand certificates" -l socket -d 'Control socket of the server; without it, the configuration says where it is' -r -F
complete -c sealane -n "__fish_sealane_using_subcommand certificates" -l within -d 'List only those that end within so many days, and end with status 2 if there are any' -r
complete -c sealane -n "__fish_sealane_using_subcommand certificates" -l json -d 'Print JSON'
complete -c sealane -n "__fish_sealane_using_subcommand doctor" -s c -d 'Configuration file: also say for each server whether kernel TLS will be used' -r -F
complete -c sealane -n "__fish_sealane_using_subcommand doctor" -s p -d 'Prefix path, as the server has it; without -c, the configuration below it is read' -r -F
complete -c sealane -n "__fish_sealane_using_subcommand doctor" -s g -d 'Global directives out of the configuration file, as the server has them' -r
complete -c sealane -n "__fish_sealane_using_subcommand doctor" -l json -d 'Print JSON (docs/doctor.md has the schema)'
complete -c sealane -n "__fish_sealane_using_subcommand migrate" -s p -d 'Prefix path, as the server has it; without FILE, the configuration below it is read' -r -F
complete -c sealane -n "__fish_sealane_using_subcommand migrate" -s g -d 'Global directives out of the configuration file, as the server has them' -r
complete -c sealane -n "__fish_sealane_using_subcommand migrate" -l json -d 'Print JSON (docs/migrate.md has the schema)'
complete -c sealane -n "__fish_sealane_using_subcommand takeover" -l nginx -d 'nginx\'s program; without it, the one in PATH' -r -F
complete -c sealane -n "__fish_sealane_using_subcommand takeover" -s c -d 'nginx\'s configuration file; without it, the one that was compiled into nginx' -r -F
complete -c sealane -n "__fish_sealane_using_subcommand takeover" -s p -d 'nginx\'s prefix; without it, the one that was compiled into nginx' -r -f -a "(__fish_complete_directories)"
complete -c sealane -n "__fish_sealane_using_subcommand takeover" -s g -d 'Global directives out of the configuration file, as nginx has them' -r
complete -c sealane -n "__fish_sealane_using_subcommand takeover" -l dry-run -d 'Only check what would happen'
complete -c sealane -n "__fish_sealane_using_subcommand ech-key" -l public-name -d 'What clients ask for in the open' -r
