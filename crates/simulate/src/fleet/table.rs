//! A table of columns, and its form on disk: Parquet, without an extension that a reader would need.
//!
//! The same table gives the same bytes.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, ensure};
use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::column::reader::get_typed_column_reader;
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, RowGroupReader};
use parquet::file::serialized_reader::SerializedFileReader;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::Type;

/// One column of values, each of which may be absent.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Values {
    Text(Vec<Option<String>>),
    Count(Vec<Option<u64>>),
    Real(Vec<Option<f64>>),
    Flag(Vec<Option<bool>>),
}

/// One value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cell {
    Text(Option<String>),
    Count(Option<u64>),
    Real(Option<f64>),
    Flag(Option<bool>),
}

/// Columns with names, all of the same length.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Table {
    pub columns: Vec<(String, Values)>,
    /// What is true of the whole table, by name: kept in the file beside the schema.
    pub facts: Vec<(String, String)>,
}

impl Values {
    /// An empty column for values of this kind.
    pub fn like(cell: &Cell) -> Values {
        match cell {
            Cell::Text(_) => Values::Text(Vec::new()),
            Cell::Count(_) => Values::Count(Vec::new()),
            Cell::Real(_) => Values::Real(Vec::new()),
            Cell::Flag(_) => Values::Flag(Vec::new()),
        }
    }

    /// Adds a value of the column's kind; one of another kind is a mistake in the code.
    pub fn push(&mut self, cell: Cell) {
        match (self, cell) {
            (Values::Text(all), Cell::Text(one)) => all.push(one),
            (Values::Count(all), Cell::Count(one)) => all.push(one),
            (Values::Real(all), Cell::Real(one)) => all.push(one),
            (Values::Flag(all), Cell::Flag(one)) => all.push(one),
            (column, cell) => panic!("{cell:?} does not belong into a column like {:?}", column.physical()),
        }
    }

    /// The value in this row.
    pub fn cell(&self, row: usize) -> Cell {
        match self {
            Values::Text(all) => Cell::Text(all[row].clone()),
            Values::Count(all) => Cell::Count(all[row]),
            Values::Real(all) => Cell::Real(all[row]),
            Values::Flag(all) => Cell::Flag(all[row]),
        }
    }

    fn len(&self) -> usize {
        match self {
            Values::Text(all) => all.len(),
            Values::Count(all) => all.len(),
            Values::Real(all) => all.len(),
            Values::Flag(all) => all.len(),
        }
    }

    fn physical(&self) -> (Physical, Option<LogicalType>) {
        match self {
            Values::Text(_) => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
            // Seeds have all 64 bits.
            Values::Count(_) => (Physical::INT64, Some(LogicalType::integer(64, false))),
            Values::Real(_) => (Physical::DOUBLE, None),
            Values::Flag(_) => (Physical::BOOLEAN, None),
        }
    }

    fn write<W: Write + Send>(&self, to: &mut SerializedRowGroupWriter<'_, W>) -> anyhow::Result<()> {
        match self {
            Values::Text(all) => write::<ByteArrayType, _, _>(all, |text| text.as_str().into(), to),
            Values::Count(all) => write::<Int64Type, _, _>(all, |n| *n as i64, to),
            Values::Real(all) => write::<DoubleType, _, _>(all, |x| *x, to),
            Values::Flag(all) => write::<BoolType, _, _>(all, |flag| *flag, to),
        }
    }

    /// Adds the values of one column of a group of rows.
    fn read(&mut self, from: &dyn RowGroupReader, at: usize) -> anyhow::Result<()> {
        match self {
            Values::Text(all) => read::<ByteArrayType, _>(from, at, all, text_of),
            Values::Count(all) => read::<Int64Type, _>(from, at, all, |n| Ok(n as u64)),
            Values::Real(all) => read::<DoubleType, _>(from, at, all, Ok),
            Values::Flag(all) => read::<BoolType, _>(from, at, all, Ok),
        }
    }
}

fn text_of(bytes: ByteArray) -> anyhow::Result<String> {
    Ok(bytes.as_utf8()?.to_owned())
}

impl Table {
    /// How many rows it has.
    pub fn rows(&self) -> usize {
        self.columns.first().map_or(0, |(_, values)| values.len())
    }

    /// The column of that name.
    pub fn column(&self, name: &str) -> Option<&Values> {
        self.columns.iter().find(|(own, _)| own == name).map(|(_, values)| values)
    }

    /// The fact of that name.
    pub fn fact(&self, name: &str) -> Option<&str> {
        self.facts.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// Writes it as a Parquet file.
    pub fn write(&self, to: impl Write + Send) -> anyhow::Result<()> {
        let field = |(name, values): &(String, Values)| {
            let (physical, logical) = values.physical();
            let field = Type::primitive_type_builder(name, physical).with_logical_type(logical);
            Ok(Arc::new(field.with_repetition(Repetition::OPTIONAL).build()?))
        };
        let fields = self.columns.iter().map(field).collect::<anyhow::Result<_>>()?;
        let schema = Arc::new(Type::group_type_builder("runs").with_fields(fields).build()?);
        let facts = self.facts.iter().map(|(name, value)| KeyValue::new(name.clone(), value.clone())).collect();
        let properties = WriterProperties::builder().set_key_value_metadata(Some(facts)).build();
        let mut file = SerializedFileWriter::new(to, schema, Arc::new(properties))?;
        let mut group = file.next_row_group()?;
        for (_, values) in &self.columns {
            values.write(&mut group)?;
        }
        group.close()?;
        file.close()?;
        Ok(())
    }

    /// Reads a Parquet file that [`Table::write`] wrote.
    pub fn read(path: &Path) -> anyhow::Result<Table> {
        Table::read_open(path).with_context(|| format!("{}: not a table of `entresol sim sweep`", path.display()))
    }

    fn read_open(path: &Path) -> anyhow::Result<Table> {
        let file = SerializedFileReader::new(File::open(path)?)?;
        let about = file.metadata().file_metadata();
        let facts = about.key_value_metadata().into_iter().flatten();
        let facts = facts.map(|fact| (fact.key.clone(), fact.value.clone().unwrap_or_default())).collect();
        let mut columns = Vec::new();
        for (at, column) in about.schema_descr().columns().iter().enumerate() {
            let mut values = Values::like(&match column.physical_type() {
                Physical::BYTE_ARRAY => Cell::Text(None),
                Physical::INT64 => Cell::Count(None),
                Physical::DOUBLE => Cell::Real(None),
                Physical::BOOLEAN => Cell::Flag(None),
                other => anyhow::bail!("column '{}' has the unexpected type {other}", column.name()),
            });
            for group in 0..file.num_row_groups() {
                values.read(&*file.get_row_group(group)?, at)?;
            }
            columns.push((column.name().to_owned(), values));
        }
        Ok(Table { columns, facts })
    }
}

/// The values that exist, and for each row whether it has one: Parquet stores them separately.
fn write<T: DataType, V, W: Write + Send>(
    values: &[Option<V>],
    as_stored: impl Fn(&V) -> T::T,
    to: &mut SerializedRowGroupWriter<'_, W>,
) -> anyhow::Result<()> {
    let present: Vec<T::T> = values.iter().flatten().map(as_stored).collect();
    let is_present: Vec<i16> = values.iter().map(|value| i16::from(value.is_some())).collect();
    let mut column = to.next_column()?.context("the schema has every column")?;
    column.typed::<T>().write_batch(&present, Some(&is_present), None)?;
    column.close()?;
    Ok(())
}

fn read<T: DataType, V>(
    from: &dyn RowGroupReader,
    at: usize,
    to: &mut Vec<Option<V>>,
    as_read: impl Fn(T::T) -> anyhow::Result<V>,
) -> anyhow::Result<()> {
    let rows = from.metadata().num_rows() as usize;
    let (mut present, mut is_present) = (Vec::new(), Vec::new());
    let mut column = get_typed_column_reader::<T>(from.get_column_reader(at)?);
    let (read, ..) = column.read_records(rows, Some(&mut is_present), None, &mut present)?;
    ensure!(read == rows, "{read} of {rows} rows could be read");
    let mut present = present.into_iter();
    for is_present in is_present {
        let value = if is_present == 1 { Some(present.next().context("a value is missing")?) } else { None };
        to.push(value.map(&as_read).transpose()?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let text = |s: &str| Some(s.to_owned());
        Table {
            columns: vec![
                ("text".to_owned(), Values::Text(vec![text("µs"), None, text("")])),
                ("count".to_owned(), Values::Count(vec![Some(u64::MAX), Some(0), None])),
                ("real".to_owned(), Values::Real(vec![None, Some(0.1), Some(f64::MAX)])),
                ("flag".to_owned(), Values::Flag(vec![Some(true), Some(false), None])),
                ("none".to_owned(), Values::Real(vec![None; 3])),
            ],
            facts: vec![("build".to_owned(), "1".to_owned())],
        }
    }

    #[test]
    fn a_table_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("t.parquet");
        for table in [table(), Table { columns: vec![("none".to_owned(), Values::Count(vec![]))], facts: vec![] }] {
            let mut bytes = Vec::new();
            table.write(&mut bytes).unwrap();
            std::fs::write(&file, &bytes).unwrap();
            let read = Table::read(&file).unwrap();
            assert_eq!((&read.columns, read.rows()), (&table.columns, table.rows()));
            assert!(table.facts.iter().all(|(name, value)| read.fact(name) == Some(value)));
            let mut again = Vec::new();
            table.write(&mut again).unwrap();
            assert!(bytes == again, "the same table gives the same bytes");
        }
    }

    #[test]
    fn what_is_no_table_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("t.parquet");
        let mut bytes = Vec::new();
        table().write(&mut bytes).unwrap();
        for wrong in [&b""[..], b"PAR1", &bytes[..bytes.len() - 9]] {
            std::fs::write(&file, wrong).unwrap();
            assert!(format!("{:#}", Table::read(&file).unwrap_err()).contains("not a table of"));
        }
    }
}
