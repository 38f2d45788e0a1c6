use outlast::Pool;
use outlast::typed::PBox;

fn change(pool: &Pool) {
    pool.typed(|pool| {
        let mut lane = pool.lane().unwrap();
        let mut kept = None;
        let number = lane
            .run(|tx| {
                let number = PBox::new(tx, 7u64)?;
                kept = Some(tx);
                Ok(number)
            })
            .unwrap();
        number.set(kept.unwrap(), 8).unwrap();
    });
}

fn main() {}
