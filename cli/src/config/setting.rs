//! A setting as everybody needs to know it who does not need its type: flags, file, page, tables.

use super::{bounds::Bounds, value::Value};

/// See the module. Its value and bounds are those of one line in `groups`.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    /// The name in files, and as a flag behind `--`. Unique among all groups.
    pub(crate) name: String,
    /// What it does.
    pub(crate) about: String,
    /// What stands for a value in help.
    pub(crate) value_name: &'static str,
    /// Whether the flag may stand alone.
    pub(crate) is_switch: bool,
    /// What is in force when nobody says anything; `None` is "not set".
    pub(crate) default: Option<String>,
    /// Which values it takes, in words.
    pub(crate) bounds: Option<String>,
}

impl Setting {
    /// Describes a field.
    pub(super) fn of<T: Value>(
        field: &str,
        about: &[&str],
        default: &T,
        bounds: Option<&Bounds<T>>,
    ) -> Self {
        Self {
            name: name_of(field),
            about: about.concat().trim().to_owned(),
            value_name: T::NAME,
            is_switch: T::IS_SWITCH,
            default: default.show(),
            bounds: bounds.map(|bounds| bounds.text().to_owned()),
        }
    }

    /// The variable of the environment.
    pub(crate) fn variable(&self) -> String {
        variable_of(&self.name)
    }
}

/// What every variable of ours begins with.
pub(super) const PREFIX: &str = "ZIGGURAT_";

/// The variable of a setting.
pub(super) fn variable_of(name: &str) -> String {
    format!("{PREFIX}{}", name.to_uppercase().replace('-', "_"))
}

/// Field names have underscores, settings have hyphens.
pub(super) fn name_of(field: &str) -> String {
    field.replace('_', "-")
}

/// Settings that belong together: a table of the file, a heading of the help.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    /// The name of the table.
    pub(crate) name: &'static str,
    /// What it is about, and who reads it.
    pub(crate) about: String,
    /// The settings, in reading order.
    pub(crate) settings: Vec<Setting>,
}

/// Declares groups of settings: a struct for each, one for all of them, their descriptions, and how they are resolved.
macro_rules! settings {
    ($($(#[doc = $about:literal])+ $group:ident: $Group:ident {
        $($(#[doc = $doc:literal])+ $field:ident: $Type:ty = $default:expr $(, in $bounds:expr)?;)+
    })+) => {
        $(
            $(#[doc = $about])+
            #[derive(Clone, Debug, PartialEq)]
            pub(crate) struct $Group {
                $($(#[doc = $doc])+ pub(crate) $field: $Type,)+
            }

            impl $Group {
                fn describe() -> Vec<Setting> {
                    vec![$({
                        let bounds: Option<Bounds<$Type>> = None$(.or_else(|| Some(Bounds::of($bounds))))?;
                        Setting::of::<$Type>(stringify!($field), &[$($doc),+], &$default, bounds.as_ref())
                    }),+]
                }

                fn resolve(resolver: &mut Resolver<'_>) -> Self {
                    Self {
                        $($field: {
                            let bounds: Option<Bounds<$Type>> = None$(.or_else(|| Some(Bounds::of($bounds))))?;
                            resolver.take(stringify!($field), $default, bounds.as_ref())
                        },)+
                    }
                }

                fn show(&self) -> Vec<Option<String>> {
                    vec![$(Value::show(&self.$field)),+]
                }
            }
        )+

        /// Everything that can be set.
        #[derive(Clone, Debug, PartialEq)]
        pub(crate) struct Settings {
            $($(#[doc = $about])+ pub(crate) $group: $Group,)+
        }

        impl Settings {
            /// The settings, described.
            pub(crate) fn groups() -> Vec<Group> {
                vec![$(Group {
                    name: stringify!($group),
                    about: [$($about),+].concat().trim().to_owned(),
                    settings: $Group::describe(),
                }),+]
            }

            /// Takes the strongest value of each; what is wrong is the resolver's to tell.
            pub(super) fn resolve(resolver: &mut Resolver<'_>) -> Self {
                Self { $($group: $Group::resolve(resolver),)+ }
            }

            /// The values as text, in the order of [`Settings::groups`] and of their settings.
            pub(super) fn show(&self) -> Vec<Option<String>> {
                [$(self.$group.show()),+].concat()
            }
        }
    };
}
pub(super) use settings;
