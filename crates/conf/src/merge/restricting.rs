//! Inheritance of access restrictions.

use super::servers::inherit;
use crate::draft::RestrictingDraft;

impl RestrictingDraft {
    /// Takes what is not set from the outer level; lines of several kinds replace those of
    /// the outer level as a whole.
    pub(super) fn inherit(&mut self, outer: &RestrictingDraft) {
        inherit!(self, outer; addresses satisfy auth_basic auth_basic_user_file auth_delay
            limit_req limit_req_whitelist limit_req_status limit_req_log_level limit_req_dry_run
            limit_conn limit_conn_status limit_conn_log_level limit_conn_dry_run valid_referers);
        let (own, outer_id) = (&mut self.userid, &outer.userid);
        inherit!(own, outer_id; mode name domain path expires flags mark p3p service reset);
        if self.secure_link_secret.is_some() {
            return;
        }
        inherit!(self, outer; secure_link secure_link_md5);
        if self.secure_link.is_none() && self.secure_link_md5.is_none() {
            self.secure_link_secret
                .clone_from(&outer.secure_link_secret);
        }
    }
}
