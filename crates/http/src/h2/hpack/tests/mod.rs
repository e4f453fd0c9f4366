//! RFC 7541 by section, and round trips.
