//! The manual page and the completions of shells, compared with the command line.

use super::CommandLine;
use clap::CommandFactory;
use sealane_manuals::Page;

const DESCRIPTION: &str = "\
.B sealane\\-bench
makes load and measures what it costs the server: processor time and memory per operation, beside
rates and latencies. It compares servers on one core with the same configuration. It is what
.B sealane bench
runs. Point it at servers of your own only.
";

const REST: &str = "\
.SH EXIT STATUS
0 on success; 1 when a response is not as expected or a server fails; 2 for a wrong command line.
.SH SEE ALSO
.BR sealane (8)
";

#[test]
fn the_manual_page_and_completions_are_current() {
    let command = CommandLine::command().name("sealane-bench");
    let page = Page {
        section: "1",
        description: DESCRIPTION,
        rest: REST,
    };
    sealane_manuals::check(&command.bin_name("sealane-bench"), &page);
}
