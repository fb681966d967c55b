//! Files that laws of values name: `csv:FILE:COLUMN`.

use std::collections::BTreeMap;

use plimsoll_core::value::{Column, VALUE_FORMS, ValueLaw};

use crate::url::Refusal;

/// The laws of a run, and the tables they share.
#[derive(Debug)]
pub(crate) struct Laws<'a> {
    files: &'a [(String, Vec<u8>)],
    tables: BTreeMap<&'a str, Table>,
}

/// A CSV file, and how its first row was understood.
#[derive(Debug)]
struct Table {
    rows: Vec<csv::StringRecord>,
    /// The first row holds names.
    has_header: bool,
}

/// The file and the column of `csv:FILE:COLUMN`. A file's name may hold colons, so the last one parts them.
pub(crate) fn csv_parts(law: &str) -> Option<(&str, &str)> {
    law.strip_prefix("csv:")?.rsplit_once(':').filter(|(file, column)| !file.is_empty() && !column.is_empty())
}

impl<'a> Laws<'a> {
    /// `files` are the names and contents of the files that laws name.
    pub(crate) fn new(files: &'a [(String, Vec<u8>)]) -> Self {
        Self { files, tables: BTreeMap::new() }
    }

    /// Reads a law of values.
    pub(crate) fn read(&mut self, text: &str) -> Result<ValueLaw, Refusal> {
        if let Some(rest) = text.strip_prefix("csv:") {
            let (file, column) = csv_parts(text).ok_or_else(|| {
                Refusal::new(format!("'{rest}' is not FILE:COLUMN"), "give both, such as csv:users.csv:id")
            })?;
            return self.column(file, column).map(ValueLaw::Column);
        }
        text.parse().map_err(|error| Refusal::new(format!("{error}"), format!("give {VALUE_FORMS}")))
    }

    fn column(&mut self, file: &str, column: &str) -> Result<Column, Refusal> {
        let number = column.bytes().all(|b| b.is_ascii_digit()).then(|| column.parse::<usize>().ok());
        let table = self.table(file, number.is_none())?;
        let first = table.rows.first().ok_or_else(|| Refusal::new("the file is empty", "give rows"))?;
        let index = match number {
            Some(number) => number.and_then(|n| n.checked_sub(1)).filter(|n| *n < first.len()),
            None => first.iter().position(|name| name == column),
        };
        let index = index.ok_or_else(|| {
            let remedy = match table.has_header {
                true => format!("give one of {}", first.iter().collect::<Vec<_>>().join(", ")),
                false => format!("give a number from 1 to {}", first.len()),
            };
            Refusal::new(format!("the file has no column {column}"), remedy)
        })?;
        let rows = &table.rows[usize::from(table.has_header)..];
        if rows.is_empty() {
            return Err(Refusal::new("the file has names of columns and no rows", "add rows"));
        }
        if let Some(row) = rows.iter().position(|row| row[index].contains('\0')) {
            return Err(Refusal::new(
                format!("row {} has a zero byte, which no request can hold", row + 1),
                "take it out",
            ));
        }
        Ok(Column::new(file, rows.iter().map(|row| Box::from(&row[index])).collect()))
    }

    /// The rows of `file`, parsed once.
    fn table(&mut self, file: &str, has_header: bool) -> Result<&Table, Refusal> {
        let (name, bytes) = self.files.iter().find(|(name, _)| name == file).ok_or_else(|| {
            Refusal::new(format!("{file} could not be read"), "give a path that can be read")
        })?;
        if !self.tables.contains_key(name.as_str()) {
            let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(bytes.as_slice());
            let rows = reader.records().collect::<Result<_, _>>().map_err(|error| {
                Refusal::new(
                    format!("{file} is not a CSV file in UTF-8: {error}"),
                    "part cells by commas, and give each row as many",
                )
            })?;
            self.tables.insert(name, Table { rows, has_header });
        }
        let table = &self.tables[name.as_str()];
        if table.has_header != has_header {
            // The same request would take different rows of it.
            return Err(Refusal::new(
                format!("{file} is read by names and by numbers of columns"),
                "name all of them, or number all of them (the first row is then a row like any other)",
            ));
        }
        Ok(table)
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_core::value::{Key, Value, Variable};

    use super::*;

    fn files(text: &str) -> Vec<(String, Vec<u8>)> {
        vec![("a:b.csv".to_owned(), text.as_bytes().to_vec())]
    }

    fn cells(text: &str, column: &str) -> Vec<String> {
        let files = files(text);
        match Laws::new(&files).read(&format!("csv:a:b.csv:{column}")) {
            Ok(ValueLaw::Column(column)) => column.cells().iter().map(ToString::to_string).collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn columns_are_found_by_name_or_by_number() {
        // RFC 4180: quotes around commas and line ends, doubled quotes inside.
        let text = "id,\"full name\"\r\n1,\"O\"\"Neil, A\"\r\n2,\"two\nlines\"\r\n";
        assert_eq!(cells(text, "id"), ["1", "2"]);
        assert_eq!(cells(text, "full name"), ["O\"Neil, A", "two\nlines"]);
        // By number there is no row of names.
        assert_eq!(cells(text, "1"), ["id", "1", "2"]);
        // A byte order mark is no part of the first name.
        assert_eq!(cells("\u{feff}id\nä\n", "id"), ["ä"]);
    }

    #[test]
    fn columns_of_one_file_give_the_same_row() {
        let files = files("id,name\n1,A\n2,B\n3,C\n");
        let mut laws = Laws::new(&files);
        let [id, name] = ["id", "name"]
            .map(|column| Variable::new(column, laws.read(&format!("csv:a:b.csv:{column}")).unwrap(), 1));
        for client in 0..9 {
            let key = Key::Step { client, step: 5 };
            let pair = (id.value(key), name.value(key));
            assert!(
                [("1", "A"), ("2", "B"), ("3", "C")]
                    .map(|(a, b)| (Value::Text(a), Value::Text(b)))
                    .contains(&pair)
            );
        }
    }

    #[test]
    fn faulty_files_and_columns_are_refused() {
        for (text, law, reason) in [
            ("id\n1\n", "csv:a:b.csv:name", "no column name"),
            ("id\n1\n", "csv:a:b.csv:2", "no column 2"),
            ("id\n1\n", "csv:a:b.csv:0", "no column 0"),
            ("id\n", "csv:a:b.csv:id", "no rows"),
            ("", "csv:a:b.csv:id", "empty"),
            ("id,x\n1\n", "csv:a:b.csv:id", "not a CSV file"),
            ("id\n\0\n", "csv:a:b.csv:id", "zero byte"),
            ("id\n1\n", "csv:c.csv:id", "could not be read"),
            ("id\n1\n", "csv:c.csv", "not FILE:COLUMN"),
            ("id\n1\n", "csv::1", "not FILE:COLUMN"),
            ("id\n1\n", "csv:a:", "not FILE:COLUMN"),
        ] {
            let files = files(text);
            let refusal = Laws::new(&files).read(law).expect_err(law);
            assert!(refusal.reason.contains(reason), "{law}: {refusal:?}");
        }
        let files = files("id,name\n1,A\n");
        let mut laws = Laws::new(&files);
        laws.read("csv:a:b.csv:id").unwrap();
        assert!(laws.read("csv:a:b.csv:2").unwrap_err().reason.contains("by names and by numbers"));
    }
}
