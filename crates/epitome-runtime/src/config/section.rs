//! Sections: settings that are declared once, as a table, and read together.
//!
//! A crate declares its sections with [`sections!`](crate::sections). A program loads the sections of all its crates in one
//! go, as a tuple, because a name in the file is a mistake only when no crate knows it.

use super::error::ConfigError;
use super::reader::Reader;
use super::setting::Key;

/// One or more sections of a configuration.
pub trait Sections: Sized {
    /// Returns every setting, in the order of the documentation.
    fn keys() -> Vec<&'static Key>;

    /// Reads every setting.
    fn read(reader: &mut Reader<'_>) -> Result<Self, ConfigError>;
}

impl<A: Sections, B: Sections> Sections for (A, B) {
    fn keys() -> Vec<&'static Key> {
        [A::keys(), B::keys()].concat()
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, ConfigError> {
        Ok((A::read(reader)?, B::read(reader)?))
    }
}

/// Declares sections: makes their structs, the table of keys and the reading of them from one list.
///
/// Each setting has a sentence for the documentation, `free` or `guarded` (see [`Guard`](crate::config::Guard)), a name, a
/// type that implements [`Setting`](crate::config::Setting), its default as it would be written in a file (empty for none),
/// and the range of a number. A setting that names a place, a program or a secret does not compile as `free`.
///
/// ```
/// use epitome_runtime::config::{Config, Loaded, Sources};
///
/// epitome_runtime::config::sections! {
///     /// The settings of a viewer.
///     pub struct ViewerConfig;
///
///     /// The viewer.
///     viewer: Viewer {
///         /// Rows on one page.
///         free rows: u64 = "50" in (1, 1000);
///     }
/// }
///
/// let flags = [("store.url", "memory:"), ("viewer.rows", "20")].map(|(key, text)| (key.to_owned(), text.to_owned()));
/// let loaded = Loaded::<(Config, ViewerConfig)>::load(&Sources { flags: flags.into(), ..Sources::default() })?;
/// let (_, viewer_config) = loaded.config;
/// assert_eq!(viewer_config.viewer.rows, 20);
/// # Ok::<(), epitome_runtime::config::ConfigError>(())
/// ```
#[macro_export]
macro_rules! sections {
    (
        $(#[$about:meta])*
        pub struct $Config:ident $(, checked by $check:path)?;
        $(
            #[doc = $section_about:literal]
            $section:ident: $Section:ident {
                $( #[doc = $field_about:literal] $guard:ident $field:ident: $Type:ty = $default:literal $(in $range:expr)?; )*
            }
        )*
    ) => {
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub struct $Config {
            $( #[doc = $section_about] pub $section: $Section, )*
        }

        $(
            #[doc = $section_about]
            #[derive(Clone, Debug, PartialEq)]
            pub struct $Section {
                $( #[doc = $field_about] pub $field: $Type, )*
            }
        )*

        $($(
            const _: () = assert!(
                matches!($crate::sections!(@guard $guard), $crate::config::Guard::Guarded)
                    || !<$Type as $crate::config::Setting>::REACHES_OUT,
                concat!(stringify!($section), ".", stringify!($field), " has to be guarded")
            );
        )*)*

        impl $crate::config::Sections for $Config {
            fn keys() -> Vec<&'static $crate::config::Key> {
                static KEYS: &[$crate::config::Key] = &[$($(
                    $crate::config::Key {
                        name: concat!(stringify!($section), ".", stringify!($field)),
                        shape: <$Type as $crate::config::Setting>::SHAPE,
                        default: $default,
                        about: $field_about,
                        guard: $crate::sections!(@guard $guard),
                        range: $crate::sections!(@range $($range)?),
                    },
                )*)*];
                KEYS.iter().collect()
            }

            fn read(reader: &mut $crate::config::Reader<'_>) -> Result<Self, $crate::config::ConfigError> {
                let config = $Config {
                    $( $section: $Section {
                        $( $field: reader.take(concat!(stringify!($section), ".", stringify!($field)))?, )*
                    }, )*
                };
                $( let config = $check(config, reader)?; )?
                Ok(config)
            }
        }
    };
    (@guard free) => { $crate::config::Guard::Free };
    (@guard guarded) => { $crate::config::Guard::Guarded };
    (@range) => { (0, u64::MAX) };
    (@range $range:expr) => { $range };
}
