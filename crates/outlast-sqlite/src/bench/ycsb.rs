//! Rows of one table: a value that is replaced, and YCSB's table as its JDBC binding creates it.

use outlast_workloads::Random;
use outlast_workloads::tpcc_terminals::letters;
use outlast_workloads::zipf::ScrambledZipfian;

use super::{Plan, Terminal};
use crate::client::{Client, ClientError, Statement, Value};

/// Random bytes.
fn fill(random: &mut Random, bytes: &mut [u8]) {
    bytes.chunks_mut(8).for_each(|part| {
        let word = random.next_u64().to_le_bytes();
        part.copy_from_slice(&word[..part.len()]);
    });
}

pub(super) fn load_values(client: &Client<'_>, plan: &Plan, rows: u64) -> Result<(), ClientError> {
    client.run("create table t(id integer primary key, v blob)")?;
    let mut insert = client.prepare("insert into t values (?, ?)")?;
    let (mut random, mut value) = (Random::new(plan.seed), vec![0; plan.value_bytes]);
    for row in 0..rows {
        fill(&mut random, &mut value);
        insert.execute(&[Value::Int(row as i64), Value::Blob(&value)])?;
    }
    Ok(())
}

/// Updates of rows, each as likely as the others.
pub(super) struct Updates<'c> {
    update: Statement<'c>,
    random: Random,
    rows: u64,
    row: i64,
    value: Vec<u8>,
}

impl<'c> Updates<'c> {
    pub fn new(client: &'c Client<'c>, plan: &Plan, round: u64) -> Result<Self, ClientError> {
        Ok(Self {
            update: client.prepare("update t set v = ?2 where id = ?1")?,
            random: Random::stream(plan.seed, round),
            rows: plan.rows,
            row: 0,
            value: vec![0; plan.value_bytes],
        })
    }
}

impl Terminal for Updates<'_> {
    fn draw(&mut self) {
        self.row = self.random.below(self.rows) as i64;
        fill(&mut self.random, &mut self.value);
    }

    fn run(&mut self) -> Result<(), ClientError> {
        self.update.execute(&[Value::Int(self.row), Value::Blob(&self.value)])
    }
}

/// Reads of rows, each as likely as the others.
pub(super) struct Reads<'c> {
    read: Statement<'c>,
    random: Random,
    rows: u64,
    row: i64,
    value_bytes: usize,
}

impl<'c> Reads<'c> {
    pub fn new(client: &'c Client<'c>, plan: &Plan, round: u64) -> Result<Self, ClientError> {
        Ok(Self {
            read: client.prepare("select v from t where id = ?")?,
            random: Random::stream(plan.seed, round),
            rows: plan.rows,
            row: 0,
            value_bytes: plan.value_bytes,
        })
    }
}

impl Terminal for Reads<'_> {
    fn draw(&mut self) {
        self.row = self.random.below(self.rows) as i64;
    }

    fn run(&mut self) -> Result<(), ClientError> {
        let bytes = self.read.first(&[Value::Int(self.row)], |row| row.blob(0).len())?;
        assert_eq!(bytes, Some(self.value_bytes), "every row was loaded");
        Ok(())
    }
}

/// Rows behind the last one, some in a transaction.
pub(super) struct Inserts<'c> {
    begin: Statement<'c>,
    insert: Statement<'c>,
    commit: Statement<'c>,
    random: Random,
    rows: usize,
    value: Vec<u8>,
}

impl<'c> Inserts<'c> {
    pub fn new(
        client: &'c Client<'c>,
        plan: &Plan,
        round: u64,
        rows: usize,
    ) -> Result<Self, ClientError> {
        Ok(Self {
            begin: client.prepare("begin")?,
            insert: client.prepare("insert into t values (null, ?)")?,
            commit: client.prepare("commit")?,
            random: Random::stream(plan.seed, round),
            rows,
            value: vec![0; (plan.value_bytes / FIELDS).max(1)],
        })
    }
}

impl Terminal for Inserts<'_> {
    fn draw(&mut self) {
        fill(&mut self.random, &mut self.value);
    }

    fn run(&mut self) -> Result<(), ClientError> {
        if self.rows == 1 {
            return self.insert.execute(&[Value::Blob(&self.value)]);
        }
        self.begin.execute(&[])?;
        for _ in 0..self.rows {
            self.insert.execute(&[Value::Blob(&self.value)])?;
        }
        self.commit.execute(&[])
    }
}

/// A table to which rows were added has all of them: their keys are consecutive.
pub(super) fn missing_rows(client: &Client<'_>) -> Result<Option<String>, ClientError> {
    let mut count = client.prepare("select count(*), max(id) from t")?;
    let found = count.first(&[], |row| (row.int(0), row.int(1)))?;
    Ok(match found {
        Some((rows, last)) if rows == last && rows > 0 => None,
        other => Some(format!("rows and the last key: {other:?}")),
    })
}

/// Fields of a user.
const FIELDS: usize = 10;

fn key(row: u64) -> String {
    format!("user{:019}", outlast_workloads::zipf::fnv_hash(row))
}

fn field(random: &mut Random, plan_bytes: usize) -> String {
    let mut text = vec![0; plan_bytes / FIELDS];
    letters(random, &mut text);
    String::from_utf8(text).expect("letters and digits")
}

pub(super) fn load_users(client: &Client<'_>, plan: &Plan) -> Result<(), ClientError> {
    let fields: String = (0..FIELDS).map(|number| format!(", field{number} text")).collect();
    client.run(&format!("create table usertable(ycsb_key varchar(255) primary key{fields})"))?;
    let places = ", ?".repeat(FIELDS);
    let mut insert = client.prepare(&format!("insert into usertable values (?{places})"))?;
    let mut random = Random::new(plan.seed);
    for row in 0..plan.rows {
        let texts: Vec<String> = std::iter::once(key(row))
            .chain((0..FIELDS).map(|_| field(&mut random, plan.value_bytes)))
            .collect();
        let values: Vec<Value<'_>> = texts.iter().map(|text| Value::Text(text)).collect();
        insert.execute(&values)?;
    }
    Ok(())
}

/// YCSB's mix A.
pub(super) struct Users<'c> {
    read: Statement<'c>,
    /// One for each field.
    updates: Vec<Statement<'c>>,
    keys: ScrambledZipfian,
    random: Random,
    value_bytes: usize,
    key: String,
    /// Which field gets which value; `None` reads.
    change: Option<(usize, String)>,
}

impl<'c> Users<'c> {
    pub fn new(client: &'c Client<'c>, plan: &Plan, round: u64) -> Result<Self, ClientError> {
        let update = |number| {
            client.prepare(&format!("update usertable set field{number} = ?2 where ycsb_key = ?1"))
        };
        Ok(Self {
            read: client.prepare("select * from usertable where ycsb_key = ?")?,
            updates: (0..FIELDS).map(update).collect::<Result<_, _>>()?,
            keys: ScrambledZipfian::new(plan.rows),
            random: Random::stream(plan.seed, round),
            value_bytes: plan.value_bytes,
            key: String::new(),
            change: None,
        })
    }
}

impl Terminal for Users<'_> {
    fn draw(&mut self) {
        let Self { random, .. } = self;
        self.key = key(self.keys.draw(random));
        let is_update = random.below(2) == 0;
        self.change = is_update.then(|| {
            let number = random.below(FIELDS as u64) as usize;
            (number, field(random, self.value_bytes))
        });
    }

    fn run(&mut self) -> Result<(), ClientError> {
        let key = Value::Text(&self.key);
        match &self.change {
            Some((number, text)) => self.updates[*number].execute(&[key, Value::Text(text)]),
            None => {
                let found = self.read.first(&[key], |row| row.text(FIELDS as i32).len())?;
                assert!(found.is_some(), "every key was loaded");
                Ok(())
            }
        }
    }
}
