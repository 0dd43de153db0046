//! CPU time of a multilayer perceptron, by rows in a batch.
//!
//! `cargo bench -p policy` prints a table: nanoseconds of a call, the median of rounds.

#![allow(clippy::print_stdout)] // the program prints a table
#![allow(clippy::cast_precision_loss)] // counts are small

use std::time::Instant;

use policy::{Function, Matrix, Network, Operation, PolicyError, Rows};

const ROUNDS: usize = 9;
const CALLS: usize = 200;

fn layer(input: usize, inputs: usize, outputs: usize) -> Operation {
    let numbers = (0..inputs * outputs).map(|index| (index % 7) as f32 * 0.01).collect();
    let weight = Matrix { rows: outputs, columns: inputs, numbers };
    Operation::Linear { input, weight, bias: vec![0.1; outputs] }
}

fn main() -> Result<(), PolicyError> {
    let sizes = [32, 64, 64, 4];
    for function in [Function::Tanh, Function::Relu, Function::Silu] {
        for rows in [1, 16, 256] {
            let mut operations = vec![Operation::Input { leaf: 0 }];
            for pair in sizes.windows(2) {
                operations.push(layer(operations.len() - 1, pair[0], pair[1]));
                operations.push(Operation::Activate { input: operations.len() - 1, function });
            }
            let last = operations.len() - 1;
            let mut network = Network::new(vec![sizes[0]], operations, vec![last])?;
            let input = vec![0.3_f32; rows * sizes[0]];
            let mut output = vec![0.0_f32; rows * sizes[3]];
            let mut times = Vec::new();
            for _ in 0..ROUNDS {
                let start = Instant::now();
                for _ in 0..CALLS {
                    let result =
                        network.forward(rows, &[Rows::F32(&input)], None, &mut [&mut output]);
                    assert!(result.is_ok(), "sizes are those of the network");
                }
                times.push(start.elapsed().as_nanos() as f64 / CALLS as f64);
            }
            times.sort_by(f64::total_cmp);
            println!("{function:?} {rows:>4} rows {:>10.0} ns", times[ROUNDS / 2]);
        }
    }
    Ok(())
}
