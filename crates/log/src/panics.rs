//! Panics as lines of the error log.

use super::{LogLevel, Logger};
use sealane_sys::crash;

/// Bytes of a panic's message that are logged.
const MAX_PANIC_MESSAGE_BYTES: usize = 512;

/// From now on a panic in any thread of the process gives an `[alert]` line with its message and
/// place, and one with its build and stack, instead of text on stderr. Whoever runs the code is
/// responsible for catching the panic and closing the connection it hit.
pub fn report_panics_to(logger: Logger) {
    std::panic::set_hook(Box::new(move |info| {
        let message = info.payload_as_str().unwrap_or("no message");
        let message = &message[..message.floor_char_boundary(MAX_PANIC_MESSAGE_BYTES)];
        let thread = std::thread::current();
        let name = thread.name().unwrap_or("unnamed");
        let place = info
            .location()
            .map_or_else(String::new, |at| format!(" at {at}"));
        logger.log(
            LogLevel::Alert,
            None,
            format_args!(
                "thread \"{name}\" panicked{place}: {message}; \
                 this is a defect in Sealane, please report this line and the next"
            ),
        );
        // The command in the message resolves the names, not this process: that takes seconds,
        // during which the thread's other connections would wait.
        logger.log(
            LogLevel::Alert,
            None,
            format_args!(
                "stack of thread \"{name}\", printed by this command for build id {}: {}",
                crash::build_id(),
                crash::call_stack()
            ),
        );
    }));
}
