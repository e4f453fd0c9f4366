//! Modules of Tengine that operators write into configurations, as clients and operators see them.

#[path = "tengine/core.rs"]
mod core;
#[path = "tengine/log_programs.rs"]
mod log_programs;
#[path = "tengine/pages.rs"]
mod pages;
#[path = "tengine/processes.rs"]
mod processes;
#[path = "tengine/req_status.rs"]
mod req_status;
#[path = "tengine/sysguard.rs"]
mod sysguard;
