//! Closed sets of names: an enum whose variants have the names that stand in settings, labels, headers and logs.

/// Declares an enum with the name of each variant, and makes `ALL`, `name()`, `from_name()` and `Display` of it.
///
/// ```
/// epitome::named_enum! {
///     /// A color.
///     pub enum Color {
///         /// Red.
///         Red = "red",
///         /// Dark blue.
///         DarkBlue = "dark-blue",
///     }
/// }
/// assert_eq!(Color::ALL.map(Color::name), ["red", "dark-blue"]);
/// assert_eq!(Color::from_name("red"), Some(Color::Red));
/// assert_eq!(Color::DarkBlue.to_string(), "dark-blue");
/// ```
#[macro_export]
macro_rules! named_enum {
    (
        $(#[$about:meta])*
        $vis:vis enum $Enum:ident {
            $( $(#[$variant_about:meta])* $Variant:ident = $name:literal, )+
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        $vis enum $Enum {
            $( $(#[$variant_about])* $Variant, )+
        }

        #[allow(dead_code, reason = "not every set is listed and read")]
        impl $Enum {
            /// All of them, in the order of their declaration.
            $vis const ALL: [Self; [$($name),+].len()] = [$(Self::$Variant),+];

            /// Returns its name.
            $vis const fn name(self) -> &'static str {
                match self {
                    $( Self::$Variant => $name, )+
                }
            }

            /// Returns the one of this name.
            $vis fn from_name(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|one| one.name() == name)
            }
        }

        impl std::fmt::Display for $Enum {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }
    };
}
