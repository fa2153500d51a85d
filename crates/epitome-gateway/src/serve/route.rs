//! Routes: which of the gateway's doors a path leads to. Everything that is not the gateway's own is a provider's.

/// A door.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// Everything that is a provider's.
    Proxy,
    /// `/livez`, `/readyz`, `/health`.
    Health,
    /// `/metrics`.
    Metrics,
    /// `/api/…`.
    Api,
    /// `/mcp`.
    Mcp,
}

impl Route {
    pub(super) const ALL: [Route; 5] = [Route::Proxy, Route::Health, Route::Metrics, Route::Api, Route::Mcp];

    pub(super) fn of(path: &str) -> Self {
        let first = path.strip_prefix('/').and_then(|rest| rest.split('/').next()).unwrap_or_default();
        match first {
            "livez" | "readyz" | "health" => Route::Health,
            "metrics" => Route::Metrics,
            "api" => Route::Api,
            "mcp" => Route::Mcp,
            _ => Route::Proxy,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Route::Proxy => "proxy",
            Route::Health => "health",
            Route::Metrics => "metrics",
            Route::Api => "api",
            Route::Mcp => "mcp",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::OWN_PATHS;

    #[test]
    fn what_the_configuration_knows_as_the_gateways_own_is_and_nothing_else() {
        for own in OWN_PATHS {
            assert_ne!(Route::of(&format!("/{own}")), Route::Proxy, "{own}");
            assert_ne!(Route::of(&format!("/{own}/more")), Route::Proxy, "{own}");
        }
        for proxied in ["/", "/v1/models", "/apis", "/v1/api", "*", "//api", "/healthy"] {
            assert_eq!(Route::of(proxied), Route::Proxy, "{proxied}");
        }
    }
}
