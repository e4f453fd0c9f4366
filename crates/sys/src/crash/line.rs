//! A line of text built without the allocator or a lock.

/// Longer lines are truncated.
const MAX_LINE_BYTES: usize = 2048;

/// A line in its own buffer. Text that does not fit is dropped.
pub(super) struct Line {
    bytes: [u8; MAX_LINE_BYTES],
    len: usize,
}

impl Line {
    pub(super) fn new() -> Line {
        Line {
            bytes: [0; MAX_LINE_BYTES],
            len: 0,
        }
    }

    pub(super) fn text(&mut self, text: &str) -> &mut Line {
        self.bytes(text.as_bytes())
    }

    fn bytes(&mut self, bytes: &[u8]) -> &mut Line {
        // The last byte is for the line end.
        let room = MAX_LINE_BYTES - 1 - self.len;
        let bytes = &bytes[..bytes.len().min(room)];
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
        self
    }

    pub(super) fn number(&mut self, number: u64) -> &mut Line {
        self.digits(number, 10, 1)
    }

    pub(super) fn hex(&mut self, number: usize) -> &mut Line {
        self.text("0x").digits(number as u64, 16, 1)
    }

    fn digits(&mut self, mut number: u64, base: u64, least: usize) -> &mut Line {
        let mut digits = [b'0'; 20];
        let mut at = digits.len();
        while number > 0 {
            at -= 1;
            digits[at] = b"0123456789abcdef"[(number % base) as usize];
            number /= base;
        }
        let from = at.min(digits.len() - least);
        self.bytes(&digits[from..])
    }

    /// The name of the calling thread.
    pub(super) fn thread_name(&mut self) -> &mut Line {
        let mut name = [0_u8; 16];
        // SAFETY: the call writes at most 16 bytes, NUL included.
        let code = unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr(), 0, 0, 0) };
        let len = name.iter().position(|&byte| byte == 0).unwrap_or(0);
        self.bytes(if code == 0 { &name[..len] } else { b"?" })
    }

    /// The time in the error log's notation, this far from UTC.
    pub(super) fn time_stamp(&mut self, utc_offset_s: i32) -> &mut Line {
        let mut now = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: `now` has room for the answer.
        unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut now) };
        self.time(now.tv_sec + i64::from(utc_offset_s))
    }

    /// `2026/11/21 21:00:00` for seconds since 1970.
    pub(super) fn time(&mut self, seconds: i64) -> &mut Line {
        let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
        let (year, month, day) = date_of(days);
        let fields = [
            (year as u64, 4, "/"),
            (month, 2, "/"),
            (day, 2, " "),
            (second as u64 / 3600, 2, ":"),
            (second as u64 / 60 % 60, 2, ":"),
            (second as u64 % 60, 2, ""),
        ];
        for (number, least, after) in fields {
            self.digits(number, 10, least).text(after);
        }
        self
    }

    pub(super) fn as_str(&self) -> &str {
        let bytes = &self.bytes[..self.len];
        std::str::from_utf8(bytes).unwrap_or_else(|error| {
            // The name was cut within a character.
            std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default()
        })
    }

    /// Writes the line. A line that cannot be written is lost.
    pub(super) fn end(&mut self, to: i32) {
        self.bytes[self.len] = b'\n';
        // SAFETY: the bytes up to `len`, which is within the buffer, are initialised.
        unsafe { libc::write(to, self.bytes.as_ptr().cast(), self.len + 1) };
        self.len = 0;
    }
}

/// Year, month and day of a day since 1970. Counts in years that begin in March, so that the leap
/// day is the last one.
fn date_of(days: i64) -> (i64, u64, u64) {
    const DAYS_PER_ERA: i64 = 146_097; // 400 years
    const MARCH_OF_YEAR_0: i64 = 719_468; // days before 1970
    let days = days + MARCH_OF_YEAR_0;
    let (era, day) = (days.div_euclid(DAYS_PER_ERA), days.rem_euclid(DAYS_PER_ERA));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153; // from March
    let day = (day - (153 * month + 2) / 5 + 1) as u64;
    let year = year + era * 400;
    if month < 10 {
        (year, month as u64 + 3, day)
    } else {
        (year + 1, month as u64 - 9, day)
    }
}
