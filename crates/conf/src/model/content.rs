//! What a location may do besides serving files and proxying:
//! ngx_http_empty_gif_module, ngx_http_flv_module, ngx_http_mp4_module and
//! ngx_http_dav_module.

use super::CheckFormat;

/// A module that answers every request of its location, in place of plain files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContentHandler {
    /// `cache_purge ZONE KEY`: purges.
    CachePurge,
    /// `echo`: texts from the configuration.
    Echo,
    /// `empty_gif`: one transparent pixel.
    EmptyGif,
    /// `flv`: files, from the position `start=` on.
    Flv,
    /// `mp4`: files, from the second `start=` to `end=`.
    Mp4,
    /// `req_status_show`: what `req_status` counts.
    ReqStatus,
    /// `metrics`, `api`, `console`: what is counted. `dyups_interface`, `upstream_conf`: groups of
    /// servers, which can be changed.
    Status(StatusView),
}

/// How what is counted is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusView {
    /// `metrics`: for scrapers.
    Metrics,
    /// `api`: a JSON tree.
    Api {
        /// `write=on`: servers of groups can be changed.
        writes: bool,
    },
    /// `dyups_interface`: groups of servers are shown and changed in Tengine's way.
    Dyups,
    /// `upstream_conf`: groups of servers are shown and changed by the arguments of a request.
    UpstreamConf,
    /// `console`: a page.
    Console,
    /// `vhost_traffic_status_display`: traffic as nginx-module-vts shows it.
    Traffic,
    /// `check_status`: what health checks know.
    Checks(CheckFormat),
}

impl StatusView {
    /// Whether requests can change groups of servers.
    pub fn changes_servers(self) -> bool {
        matches!(
            self,
            StatusView::Api { writes: true } | StatusView::Dyups | StatusView::UpstreamConf
        )
    }

    /// Its directive.
    pub fn name(self) -> &'static str {
        match self {
            StatusView::Metrics => "metrics",
            StatusView::Api { .. } => "api",
            StatusView::Dyups => "dyups_interface",
            StatusView::UpstreamConf => "upstream_conf",
            StatusView::Console => "console",
            StatusView::Traffic => "vhost_traffic_status_display",
            StatusView::Checks(_) => "check_status",
        }
    }
}

/// The options of `mp4`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mp4 {
    /// `mp4_buffer_size`: bytes that may always be taken of a file's index; default 512k.
    pub buffer_bytes: u64,
    /// `mp4_max_buffer_size`: the largest index (`moov`) that is taken into memory; default 10m.
    pub max_buffer_bytes: u64,
    /// `mp4_start_key_frame`: the beginning is moved back to a key frame; default off.
    pub start_key_frame: bool,
}

/// `dav_methods` and its options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dav {
    /// `dav_methods`.
    pub methods: DavMethods,
    /// `dav_access`: permissions of files; a directory is searchable by everyone who may read
    /// it. Default 0600.
    pub access: u32,
    /// `min_delete_depth`: elements that a path must have to be deleted; default 0.
    pub min_delete_depth: u64,
    /// `create_full_put_path`: PUT creates directories that are missing; default off.
    pub create_full_put_path: bool,
}

/// The methods of `dav_methods`; none for `off`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DavMethods {
    /// PUT.
    pub put: bool,
    /// DELETE.
    pub delete: bool,
    /// MKCOL.
    pub mkcol: bool,
    /// COPY.
    pub copy: bool,
    /// MOVE.
    pub move_: bool,
}
