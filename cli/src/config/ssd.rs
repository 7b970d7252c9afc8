//! A list of SSD directories, as settings have it.

use std::{fmt, str::FromStr};
use ziggurat_base::{Code, Error};
use ziggurat_store::SsdPath;

/// `DIR[:SIZE][,DIR…]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SsdList(pub(crate) Vec<SsdPath>);

impl FromStr for SsdList {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let list: Vec<SsdPath> = text.split(',').map(str::parse).collect::<Result<_, _>>()?;
        for (index, one) in list.iter().enumerate() {
            if list[..index].iter().any(|other| other.path == one.path) {
                return Err(Error::new(
                    Code::InvalidParams,
                    format!(
                        "{} is given twice: give each directory once",
                        one.path.display()
                    ),
                ));
            }
        }
        Ok(Self(list))
    }
}

impl fmt::Display for SsdList {
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
    use super::SsdList;

    #[test]
    fn a_list_reads_back_what_it_shows() {
        let list: SsdList = "/a:4GiB,/b".parse().unwrap();
        assert_eq!(list.to_string(), "/a:4294967296B,/b");
        assert_eq!(list.to_string().parse::<SsdList>().unwrap(), list);
        assert!(
            "/a,/a:1GiB"
                .parse::<SsdList>()
                .unwrap_err()
                .to_string()
                .contains("twice")
        );
        assert!("/a,".parse::<SsdList>().is_err());
    }
}
