//! What features keep with a request.
//!
//! A feature that has to remember something about a request declares a struct with `Default` in
//! its own file, and one field here. Nothing else needs to know: a new request begins with the
//! default, an internal redirect keeps it, and a subrequest begins with a default of its own.
//! A feature that differs says so in one of the functions below, and nowhere else:
//!
//! | | kept by default | differs |
//! |---|---|---|
//! | internal redirect to a URI | yes | what depends on the URI or its location starts anew |
//! | internal redirect to a named location | yes | access and `try_files` start anew |
//! | subrequest | no | what is about the client, or counted for all subrequests together |
//!
//! nginx clears every module's context on an internal redirect, and modules work around it. Here
//! the state survives unless it is listed. State that few requests need is boxed.

use crate::access::AccessState;
use crate::codings::CodingsState;
use crate::exchange::Exchange;
use crate::filters::{
    AddHeaderState, CharsetState, CompressState, SliceState, SsiState, TrimState, UseridState,
};
use crate::handlers::echo::EchoState;
use crate::handlers::special::ErrorPageState;
use crate::handlers::try_files::TryFilesState;
use crate::limit_rate::LimitRateState;
use crate::limits::LimitsState;
use crate::prologue::EarlyDataState;
use crate::proxying::UpdateState;
use crate::real_ip::RealIpState;
use crate::req_status::ReqStatusState;
use crate::request_body::RequestBodyState;
use crate::request_log::RequestLogState;
use crate::rewrite::RewriteState;
use crate::status::StatusState;
use crate::stream::SessionState;
use crate::subrequest::{SubrequestKind, SubrequestState};
use crate::sysguard::SysguardState;
use crate::tally::{SubrequestPermit, TallyState};
use crate::traces::TracingState;
use crate::variables::RequestIdState;

/// One field for each feature.
#[derive(Default)]
pub(crate) struct Features {
    pub(crate) access: AccessState,
    pub(crate) add_header: AddHeaderState,
    pub(crate) cache_update: UpdateState,
    pub(crate) charset: CharsetState,
    pub(crate) codings: CodingsState,
    pub(crate) compress: CompressState,
    pub(crate) early_data: EarlyDataState,
    pub(crate) echo: EchoState,
    pub(crate) error_page: ErrorPageState,
    pub(crate) limit_rate: LimitRateState,
    pub(crate) limits: LimitsState,
    pub(crate) real_ip: RealIpState,
    pub(crate) req_status: ReqStatusState,
    pub(crate) request_body: RequestBodyState,
    pub(crate) request_id: RequestIdState,
    pub(crate) request_log: RequestLogState,
    pub(crate) rewrite: RewriteState,
    /// Of a session of layer 4 or of mail; requests have none.
    pub(crate) session: Option<Box<SessionState>>,
    pub(crate) slice: SliceState,
    pub(crate) ssi: SsiState,
    pub(crate) status: StatusState,
    pub(crate) subrequest: SubrequestState,
    pub(crate) sysguard: SysguardState,
    pub(crate) tally: TallyState,
    pub(crate) tracing: TracingState,
    pub(crate) trim: TrimState,
    pub(crate) try_files: TryFilesState,
    pub(crate) userid: UseridState,
}

impl Features {
    /// An internal redirect leads to another URI.
    pub(crate) fn redirect(&mut self) {
        self.access = AccessState::default();
        self.codings = CodingsState::default();
        self.rewrite = RewriteState::default();
        self.try_files = TryFilesState::default();
    }

    /// An internal redirect leads to a named location, with the URI as it is.
    pub(crate) fn redirect_to_named(&mut self) {
        self.access = AccessState::default();
        self.try_files = TryFilesState::default();
    }

    /// The features of a subrequest that `main` makes.
    pub(crate) fn of_subrequest(
        main: &Exchange,
        kind: SubrequestKind,
        permit: SubrequestPermit,
    ) -> Features {
        let of_main = &main.features;
        Features {
            charset: CharsetState::of_subrequest(main),
            limits: match kind {
                SubrequestKind::Mirror | SubrequestKind::PostAction | SubrequestKind::Update => {
                    of_main.limits.without_permits()
                }
                SubrequestKind::Auth | SubrequestKind::Included | SubrequestKind::Slice => {
                    of_main.limits.shared()
                }
            },
            real_ip: of_main.real_ip.clone(),
            request_id: RequestIdState::of_subrequest(main),
            rewrite: match kind {
                SubrequestKind::Slice | SubrequestKind::Update => of_main.rewrite,
                SubrequestKind::Auth
                | SubrequestKind::Included
                | SubrequestKind::Mirror
                | SubrequestKind::PostAction => RewriteState::default(),
            },
            ssi: SsiState::of_subrequest(main),
            subrequest: SubrequestState::of_subrequest(main),
            sysguard: SysguardState::of_subrequest(main),
            tally: TallyState::of_subrequest(main, permit),
            tracing: TracingState::of_subrequest(main),
            ..Features::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every request pays for it: what few need belongs into a box.
    #[test]
    fn an_exchange_stays_small() {
        let bytes = size_of::<Exchange>();
        assert!(
            bytes <= 1424,
            "{bytes}, features: {}",
            size_of::<Features>()
        );
    }

    #[test]
    fn redirects_forget_what_belongs_to_the_uri() {
        let of = |redirect: fn(&mut Features)| {
            let mut features = Features::default();
            features.rewrite.uri_left_location = true;
            features.try_files.uri_under_alias = true;
            features.limit_rate.of_request = Some(7);
            redirect(&mut features);
            (
                features.rewrite.uri_left_location,
                features.try_files.uri_under_alias,
                features.limit_rate.of_request,
            )
        };
        assert_eq!(of(Features::redirect), (false, false, Some(7)));
        // The URI is still the one that `rewrite` has made.
        assert_eq!(of(Features::redirect_to_named), (true, false, Some(7)));
    }
}
