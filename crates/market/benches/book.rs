//! Mixed operations per CPU-second on one core, compared with a book of maps and queues.
//!
//! `cargo bench -p market` prints a table; both books replay the same operations, interleaved, and the
//! median of the rounds is shown.

#![allow(clippy::print_stdout)] // the program prints a table

mod tree_book;

use std::hint::black_box;
use std::time::Instant;

use market::{AccountId, Fill, Lots, Order, OrderBook, OrderId, SelfTrade, Side, Ticks};
use tree_book::TreeBook;

const OPERATIONS: usize = 500_000;
/// The system counts CPU time in steps of up to 4 ms, so a round repeats its script.
const REPEATS: usize = 20;
const ROUNDS: usize = 9;

/// One operation of the script; orders are referred to by the index of their id in a short list.
#[derive(Clone, Copy)]
enum Step {
    Limit(Order, u32),
    Market(Order),
    Cancel(u32),
}

/// Book interface of the benchmark.
trait Book {
    type Id: Copy;
    fn place(&mut self, order: Order, fills: &mut Vec<Fill>) -> Option<Self::Id>;
    fn cancel(&mut self, id: Self::Id) -> bool;
}

impl Book for OrderBook {
    type Id = OrderId;

    fn place(&mut self, order: Order, fills: &mut Vec<Fill>) -> Option<OrderId> {
        self.place(order, fills).ok()?.id
    }

    fn cancel(&mut self, id: OrderId) -> bool {
        self.cancel(id).is_ok()
    }
}

/// Result of a round, and its duration.
#[derive(Clone, Copy)]
struct Round {
    seconds: f64,
    lots: u64,
}

fn main() {
    println!("{:>12} {:>16} {:>16} {:>7}", "live orders", "sekai, M/s", "maps, M/s", "ratio");
    for target in [65, 1_900] {
        let script = Script::new(target).steps;
        let mut rates = [Vec::new(), Vec::new()];
        for _ in 0..ROUNDS {
            let ladder = run(|| OrderBook::new(SelfTrade::CancelResting), &script);
            let tree = run(TreeBook::default, &script);
            assert_eq!(ladder.lots, tree.lots, "both books trade the same lots");
            let millions = 1e-6 * as_f64(script.len() * REPEATS);
            rates[0].push(millions / ladder.seconds);
            rates[1].push(millions / tree.seconds);
        }
        let [ladder, tree] = rates.map(median);
        println!("{target:>12} {ladder:>16.1} {tree:>16.1} {:>7.1}", ladder / tree);
    }
}

fn run<B: Book>(begin: impl Fn() -> B, script: &[Step]) -> Round {
    let mut fills = Vec::with_capacity(1_024);
    let mut lots = 0;
    let start = cpu_seconds();
    for _ in 0..REPEATS {
        lots += replay(&mut begin(), script, &mut fills);
    }
    Round { seconds: cpu_seconds() - start, lots: black_box(lots) }
}

/// Replay the script; returns the lots that traded.
fn replay<B: Book>(book: &mut B, script: &[Step], fills: &mut Vec<Fill>) -> u64 {
    let mut ids: Vec<Option<B::Id>> = vec![None; 4_096];
    let mut lots = 0;
    for &step in script {
        match step {
            Step::Limit(order, name) => ids[name as usize] = book.place(order, fills),
            Step::Market(order) => assert!(book.place(order, fills).is_none()),
            Step::Cancel(name) => {
                let cancelled = ids[name as usize].is_some_and(|id| book.cancel(id));
                assert!(cancelled, "a script cancels only what rests");
            }
        }
        if fills.len() > 900 {
            lots += fills.drain(..).map(|fill| u64::from(fill.size.0)).sum::<u64>();
        }
    }
    lots + fills.drain(..).map(|fill| u64::from(fill.size.0)).sum::<u64>()
}

/// Operations generated in advance on a separate book, so that each cancel refers to a resting order.
struct Script {
    steps: Vec<Step>,
    book: OrderBook,
    live: Vec<(OrderId, u32)>,
    names: Vec<u32>,
    middle: i32,
    state: u64,
}

impl Script {
    fn new(target: usize) -> Self {
        let book = OrderBook::new(SelfTrade::CancelResting);
        let (steps, live, names) = (Vec::new(), Vec::new(), (0..4_096).rev().collect());
        let mut script = Self { steps, book, live, names, middle: 100_000, state: 1 };
        while script.book.len() < target {
            script.limit(target);
        }
        let end = script.steps.len() + OPERATIONS;
        while script.steps.len() < end {
            script.step(target);
        }
        script
    }

    /// About one market order in ten; limit orders and cancels hold the book at its size.
    fn step(&mut self, target: usize) {
        self.middle += [-1, 0, 0, 0, 0, 0, 0, 0, 0, 1][self.below(10)];
        match self.below(20) {
            0 | 1 => self.market(),
            _ if self.book.len() > target => self.cancel(),
            _ => self.limit(target),
        }
    }

    fn limit(&mut self, target: usize) {
        let side = Side::BOTH[self.below(2)];
        let reach = if target < 100 { 12 } else { 150 };
        let away = i32::try_from(1 + self.below(reach)).expect("a few ticks");
        let price = Ticks(self.middle - away * if side == Side::Buy { 1 } else { -1 });
        let order = Order::limit(self.account(), side, price, self.size());
        let placed = self.book.place(order, &mut Vec::new()).expect("a good order");
        let name = self.name();
        match placed.id {
            Some(id) => self.live.push((id, name)),
            None => self.names.push(name),
        }
        self.steps.push(Step::Limit(order, name));
    }

    fn market(&mut self) {
        let side = Side::BOTH[self.below(2)];
        let order = Order::market(self.account(), side, self.size());
        self.book.place(order, &mut Vec::new()).expect("a good order");
        self.steps.push(Step::Market(order));
    }

    fn cancel(&mut self) {
        loop {
            let pick = self.below(self.live.len());
            let (id, name) = self.live.swap_remove(pick);
            self.names.push(name);
            if self.book.cancel(id).is_ok() {
                self.steps.push(Step::Cancel(name));
                return;
            }
        }
    }

    /// An id that no resting order has.
    fn name(&mut self) -> u32 {
        if self.names.is_empty() {
            let Self { live, names, book, .. } = self;
            names.extend(live.extract_if(.., |order| book.order(order.0).is_none()).map(|o| o.1));
        }
        self.names.pop().expect("more names than orders")
    }

    fn account(&mut self) -> AccountId {
        AccountId(u32::try_from(self.below(100)).expect("a small number"))
    }

    fn size(&mut self) -> Lots {
        Lots(u32::try_from(1 + self.below(20)).expect("a small number"))
    }

    /// A number below `count`, from a multiplicative congruential generator.
    fn below(&mut self, count: usize) -> usize {
        self.state = self.state.wrapping_mul(0xd134_2543_de82_ef95).wrapping_add(1);
        (usize::try_from(self.state >> 33).expect("31 bits") * count) >> 31
    }
}

/// CPU time of this thread where available (Linux), else wall-clock time.
fn cpu_seconds() -> f64 {
    let schedule = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    match schedule.split(' ').next().map(str::parse::<u64>) {
        Some(Ok(nanoseconds)) => 1e-9 * as_f64(usize::try_from(nanoseconds).unwrap_or(0)),
        _ => START.elapsed().as_secs_f64(),
    }
}

static START: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);

#[allow(clippy::cast_precision_loss)] // far below 2^53
fn as_f64(count: usize) -> f64 {
    count as f64
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
