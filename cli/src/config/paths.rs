//! Lists of directories, as settings have them.

use std::{fmt, path::Path, str::FromStr};
use ziggurat_base::{Code, Error};
use ziggurat_store::{RootPath, SsdPath};

/// A directory with what is said of it.
pub(crate) trait Directory: FromStr<Err = Error> + fmt::Display {
    /// Where it is.
    fn path(&self) -> &Path;
}

impl Directory for SsdPath {
    fn path(&self) -> &Path {
        &self.path
    }
}

impl Directory for RootPath {
    fn path(&self) -> &Path {
        &self.path
    }
}

/// `DIR[:SIZE][,DIR…]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Paths<T>(pub(crate) Vec<T>);

impl<T: Directory> FromStr for Paths<T> {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let list: Vec<T> = text.split(',').map(str::parse).collect::<Result<_, _>>()?;
        for (index, one) in list.iter().enumerate() {
            if list[..index].iter().any(|other| other.path() == one.path()) {
                return Err(Error::new(
                    Code::InvalidParams,
                    format!(
                        "{} is given twice: give each directory once",
                        one.path().display()
                    ),
                ));
            }
        }
        Ok(Self(list))
    }
}

impl<T: Directory> fmt::Display for Paths<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, one) in self.0.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(f, "{comma}{one}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Paths;
    use ziggurat_store::SsdPath;

    #[test]
    fn a_list_reads_back_what_it_shows() {
        let list: Paths<SsdPath> = "/a:4GiB,/b".parse().unwrap();
        assert_eq!(list.to_string(), "/a:4294967296B,/b");
        assert_eq!(list.to_string().parse::<Paths<SsdPath>>().unwrap(), list);
        assert!(
            "/a,/a:1GiB"
                .parse::<Paths<SsdPath>>()
                .unwrap_err()
                .to_string()
                .contains("twice")
        );
        assert!("/a,".parse::<Paths<SsdPath>>().is_err());
    }
}
