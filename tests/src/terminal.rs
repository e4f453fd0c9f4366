//! A terminal of tmux, with a program in it.

use crate::{Site, command, wait_for};
use std::sync::atomic::{AtomicU32, Ordering};

/// A terminal that nobody looks at. Dropping it ends the program.
#[derive(Debug)]
pub struct Terminal {
    /// tmux's own socket, so that no other tmux is touched.
    socket: String,
}

impl Terminal {
    /// Runs a command line in a terminal of this many columns and rows, which stays when the
    /// program has ended.
    ///
    /// # Panics
    /// When tmux is not installed.
    #[track_caller]
    pub fn run(site: &Site, columns: u16, rows: u16, command_line: &str) -> Terminal {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let socket = site.path(format!("tmux-{number}")).display().to_string();
        let (columns, rows) = (columns.to_string(), rows.to_string());
        let terminal = Terminal { socket };
        // What a shell prints afterwards shows that the terminal was given back.
        let shell = format!("{command_line}; echo \"ended with $?\"; exec cat");
        terminal.tmux(&[
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-x",
            &columns,
            "-y",
            &rows,
            &shell,
        ]);
        terminal
    }

    #[track_caller]
    fn tmux(&self, arguments: &[&str]) -> String {
        let all = [&["-S", &self.socket], arguments].concat();
        command("tmux", &all, b"").success().text()
    }

    /// What is on the screen.
    #[track_caller]
    pub fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    /// Waits until the screen shows this text, and returns all of it.
    #[track_caller]
    pub fn wait_for(&self, text: &str) -> String {
        wait_for(&format!("\"{text}\" on the screen"), || {
            let screen = self.screen();
            screen.contains(text).then_some(screen)
        })
    }

    /// Presses keys, by tmux's names.
    #[track_caller]
    pub fn press(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    /// The program's process.
    #[track_caller]
    pub fn pid(&self) -> u32 {
        let shell = self.tmux(&["display-message", "-p", "#{pane_pid}"]);
        let shell = shell.trim().parse().expect("a number");
        let children = crate::upgrade::children(shell);
        *children.first().expect("the program runs")
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let arguments = ["-S", self.socket.as_str(), "kill-server"];
        command("tmux", &arguments, b"");
    }
}
