//! Each operation against a plain evaluation in `f64`.

#![allow(missing_docs, clippy::unwrap_used, clippy::cast_possible_truncation)]
#![allow(clippy::cast_precision_loss, clippy::needless_range_loop, clippy::type_complexity)]

use policy::{Function, Matrix, Network, Operation, Rows};

/// Numbers that look random, from -1 to 1.
fn numbers(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) + 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1_u64 << 23) as f32 - 1.0
    };
    std::iter::repeat_with(next).take(count).collect()
}

fn matrix(rows: usize, columns: usize, seed: u64) -> Matrix {
    Matrix { rows, columns, numbers: numbers(rows * columns, seed) }
}

fn wide(numbers: &[f32]) -> Vec<f64> {
    numbers.iter().map(|number| f64::from(*number)).collect()
}

/// Output of a network of an input, other leaves and one operation.
fn apply(leaves: &[(usize, &[f32])], operation: Operation, rows: usize) -> Vec<f32> {
    let sizes = leaves.iter().map(|(size, _)| *size).collect::<Vec<_>>();
    let mut operations =
        (0..leaves.len()).map(|leaf| Operation::Input { leaf }).collect::<Vec<_>>();
    operations.push(operation);
    let mut network = Network::new(sizes, operations, vec![leaves.len()]).unwrap();
    let mut output = vec![0.0; rows * network.widths()[0]];
    let inputs = leaves.iter().map(|(_, numbers)| Rows::F32(numbers)).collect::<Vec<_>>();
    network.forward(rows, &inputs, None, &mut [&mut output]).unwrap();
    output
}

fn assert_near(got: &[f32], expected: &[f64]) {
    assert_eq!(got.len(), expected.len());
    for (index, (got, expected)) in got.iter().zip(expected).enumerate() {
        let error = (f64::from(*got) - expected).abs();
        assert!(error <= 2e-6 * expected.abs().max(1.0), "{index}: {got} is not {expected}");
    }
}

/// Rows times a matrix plus a bias.
fn product(rows: &[f64], weight: &Matrix, bias: &[f32]) -> Vec<f64> {
    let weights = wide(&weight.numbers);
    let mut output = Vec::new();
    for row in rows.chunks_exact(weight.columns) {
        for (index, weights) in weights.chunks_exact(weight.columns).enumerate() {
            let sum: f64 = row.iter().zip(weights).map(|(number, weight)| number * weight).sum();
            output.push(sum + bias.get(index).map_or(0.0, |bias| f64::from(*bias)));
        }
    }
    output
}

fn logistic(number: f64) -> f64 {
    1.0 / (1.0 + (-number).exp())
}

#[test]
fn a_linear_layer_is_the_product_of_every_item() {
    for (inputs, outputs) in [(1, 1), (3, 5), (7, 16), (9, 17), (64, 64), (33, 130)] {
        for rows in [1, 2, 3, 4, 5, 9, 70, 129] {
            for items in [1, 3] {
                let input = numbers(rows * items * inputs, 1);
                let (weight, bias) = (matrix(outputs, inputs, 2), numbers(outputs, 3));
                let expected = product(&wide(&input), &weight, &bias);

                let operation = Operation::Linear { input: 0, weight, bias };
                assert_near(&apply(&[(items * inputs, &input)], operation, rows), &expected);
            }
        }
    }
}

#[test]
fn activations_are_elementwise() {
    let input = numbers(100, 4).iter().map(|number| number * 6.0).collect::<Vec<f32>>();
    let functions: [(Function, fn(f64) -> f64); 4] = [
        (Function::Tanh, f64::tanh),
        (Function::Relu, |number| number.max(0.0)),
        (Function::Silu, |number| number * logistic(number)),
        (Function::Sigmoid, logistic),
    ];
    for (function, exact) in functions {
        let expected = wide(&input).into_iter().map(exact).collect::<Vec<f64>>();

        assert_near(
            &apply(&[(10, &input)], Operation::Activate { input: 0, function }, 10),
            &expected,
        );
    }
}

#[test]
fn normalization_repeats_its_moments_and_clips() {
    let input = numbers(24, 5);
    let (mean, scale) = (numbers(3, 6), vec![1.0, 4.0, 1e6]);
    let expected = input
        .iter()
        .enumerate()
        .map(|(index, number)| {
            let (mean, scale) = (mean[index % 3], scale[index % 3]);
            f64::from((number - mean) * scale).clamp(-10.0, 10.0)
        })
        .collect::<Vec<f64>>();

    let operation = Operation::Normalize { input: 0, mean, scale, clip: 10.0 };

    assert_near(&apply(&[(12, &input)], operation, 2), &expected);
}

#[test]
fn layer_norm_standardizes_every_item() {
    let (width, input) = (13, numbers(13 * 6, 7));
    let (weight, bias) = (numbers(width, 8), numbers(width, 9));
    let mut expected = Vec::new();
    for row in wide(&input).chunks_exact(width) {
        let mean = row.iter().sum::<f64>() / width as f64;
        let variance = row.iter().map(|number| (number - mean).powi(2)).sum::<f64>() / width as f64;
        for (index, number) in row.iter().enumerate() {
            let scaled = (number - mean) / (variance + 1e-5).sqrt();
            expected.push(scaled * f64::from(weight[index]) + f64::from(bias[index]));
        }
    }

    let operation = Operation::LayerNorm { input: 0, weight, bias, epsilon: 1e-5 };

    assert_near(&apply(&[(3 * width, &input)], operation, 2), &expected);
}

const MASK: [f32; 8] = [1.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0];
const ITEMS: usize = 4;

#[test]
fn pooling_reads_the_items_in_use() {
    let (width, input) = (3, numbers(2 * ITEMS * 3, 10));
    let mut means = vec![0.0; 2 * width];
    let mut greatest = vec![0.0; 2 * width];
    for column in 0..width {
        let used = [0, 2, 3].map(|item| f64::from(input[item * width + column]));
        means[column] = used.iter().sum::<f64>() / 3.0;
        greatest[column] = used.into_iter().fold(f64::NEG_INFINITY, f64::max);
    }
    let leaves: [(usize, &[f32]); 2] = [(ITEMS * width, &input), (ITEMS, &MASK)];

    let mean = apply(&leaves, Operation::Mean { input: 0, items: ITEMS, mask: Some(1) }, 2);
    let max = apply(&leaves, Operation::Max { input: 0, items: ITEMS, mask: Some(1) }, 2);

    assert_near(&mean, &means);
    assert_near(&max, &greatest);
}

#[test]
fn attention_is_a_weighted_mean_of_the_items_in_use() {
    let (width, heads, rows) = (6, 2, 2);
    let head = width / heads;
    let input = numbers(rows * ITEMS * 3 * width, 11);
    let exact = wide(&input);
    let mut expected = vec![0.0; rows * ITEMS * width];
    for row in 0..rows {
        // Without any item in use all are attended to.
        let keys = if row == 0 { vec![0, 2, 3] } else { vec![0, 1, 2, 3] };
        let part = |item: usize, kind: usize, which: usize| {
            let first = ((row * ITEMS + item) * 3 + kind) * width + which * head;
            &exact[first..first + head]
        };
        for item in 0..ITEMS {
            for which in 0..heads {
                let scores = keys.iter().map(|key| {
                    let pairs = part(item, 0, which).iter().zip(part(*key, 1, which));
                    (pairs.map(|(query, key)| query * key).sum::<f64>() / (head as f64).sqrt())
                        .exp()
                });
                let scores = scores.collect::<Vec<f64>>();
                let total = scores.iter().sum::<f64>();
                for (key, score) in keys.iter().zip(&scores) {
                    for index in 0..head {
                        expected[(row * ITEMS + item) * width + which * head + index] +=
                            score / total * part(*key, 2, which)[index];
                    }
                }
            }
        }
    }
    let leaves: [(usize, &[f32]); 2] = [(ITEMS * 3 * width, &input), (ITEMS, &MASK)];

    let operation = Operation::Attention { input: 0, items: ITEMS, heads, mask: Some(1) };

    assert_near(&apply(&leaves, operation, rows), &expected);
}

#[test]
fn neighbours_are_weighted_by_correlations() {
    let (times, channels) = (5, 2);
    let input = numbers(ITEMS * times * channels, 12);
    let series = (0..ITEMS).map(|item| {
        let numbers = (0..times)
            .map(|time| f64::from(input[(item * times + time) * channels + 1]))
            .collect::<Vec<f64>>();
        let mean = numbers.iter().sum::<f64>() / times as f64;
        let centred = numbers.iter().map(|number| number - mean).collect::<Vec<f64>>();
        let variance = centred.iter().map(|number| number * number).sum::<f64>() / times as f64;
        centred.iter().map(|number| number / (variance + 1e-8).sqrt()).collect::<Vec<f64>>()
    });
    let series = series.collect::<Vec<_>>();
    let mut expected = vec![0.0; ITEMS * ITEMS];
    for item in 0..ITEMS {
        for other in [0, 2, 3] {
            let pairs = series[item].iter().zip(&series[other]);
            let together = pairs.map(|(left, right)| left * right).sum::<f64>() / times as f64;
            if item != other {
                expected[item * ITEMS + other] = logistic(4.0 * together - 3.0);
            }
        }
        let total = expected[item * ITEMS..(item + 1) * ITEMS].iter().sum::<f64>().max(1e-6);
        expected[item * ITEMS..(item + 1) * ITEMS].iter_mut().for_each(|near| *near /= total);
    }
    let leaves: [(usize, &[f32]); 2] = [(ITEMS * times * channels, &input), (ITEMS, &MASK[..4])];

    let operation = Operation::Correlations {
        input: 0,
        items: ITEMS,
        times,
        channel: 1,
        slope: 4.0,
        offset: -3.0,
        mask: Some(1),
    };

    assert_near(&apply(&leaves, operation, 1), &expected);
}

#[test]
fn a_gru_returns_its_last_state() {
    let (times, channels, hidden, rows) = (7, 3, 5, 2);
    let input = numbers(rows * ITEMS * times * channels, 13);
    let (input_weight, hidden_weight) =
        (matrix(3 * hidden, channels, 14), matrix(3 * hidden, hidden, 15));
    let (input_bias, hidden_bias) = (numbers(3 * hidden, 16), numbers(3 * hidden, 17));
    let mut expected = Vec::new();
    for window in wide(&input).chunks_exact(times * channels) {
        let mut state = vec![0.0; hidden];
        for row in window.chunks_exact(channels) {
            let by_input = product(row, &input_weight, &input_bias);
            let by_state = product(&state, &hidden_weight, &hidden_bias);
            for index in 0..hidden {
                let reset = logistic(by_input[index] + by_state[index]);
                let update = logistic(by_input[hidden + index] + by_state[hidden + index]);
                let new =
                    (by_input[2 * hidden + index] + reset * by_state[2 * hidden + index]).tanh();
                state[index] = (1.0 - update) * new + update * state[index];
            }
        }
        expected.extend(state);
    }

    let operation = Operation::Gru {
        input: 0,
        items: ITEMS,
        input_weight,
        hidden_weight,
        input_bias,
        hidden_bias,
    };

    assert_near(&apply(&[(ITEMS * times * channels, &input)], operation, rows), &expected);
}

#[test]
fn pieces_end_with_the_last_row_and_begin_with_zeros() {
    let input = [1.0, 2.0, 3.0, 4.0];
    let operation = Operation::Pieces { input: 0, items: 1, times: 4, kernel: 3, stride: 2 };

    assert_near(&apply(&[(4, &input)], operation, 1), &[0.0, 1.0, 2.0, 2.0, 3.0, 4.0]);
}

#[test]
fn a_convolution_slides_over_the_image() {
    let ([height, width], channels, kernel, stride, outputs) = ([7, 6], 2, 3, 2, 5);
    let input = numbers(2 * height * width * channels, 18);
    let (weight, bias) = (matrix(outputs, kernel * kernel * channels, 19), numbers(outputs, 20));
    let mut expected = Vec::new();
    for image in wide(&input).chunks_exact(height * width * channels) {
        for top in (0..=height - kernel).step_by(stride) {
            for left in (0..=width - kernel).step_by(stride) {
                let mut patch = Vec::new();
                for row in top..top + kernel {
                    for column in left..left + kernel {
                        let first = (row * width + column) * channels;
                        patch.extend_from_slice(&image[first..first + channels]);
                    }
                }
                expected.extend(product(&patch, &weight, &bias));
            }
        }
    }

    let operation =
        Operation::Convolution { input: 0, sides: [height, width], kernel, stride, weight, bias };

    assert_near(&apply(&[(height * width * channels, &input)], operation, 2), &expected);
}

#[test]
fn slots_scale_sums_and_layouts_are_exact() {
    let input = numbers(2 * 12, 21);
    let exact = wide(&input);
    let leaves: [(usize, &[f32]); 2] = [(12, &input), (ITEMS, &MASK)];
    let transposed = (0..24)
        .map(|index| exact[index / 12 * 12 + index % 4 * 3 + index % 12 / 4])
        .collect::<Vec<_>>();
    let zeroed = (0..24).map(|index| exact[index] * f64::from(MASK[index / 3])).collect::<Vec<_>>();
    let sums = (0..24).map(|i| exact[i] + f64::from(MASK[i / 12 * 4 + i % 4])).collect::<Vec<_>>();
    let parts = exact.chunks_exact(3).flat_map(|item| [item[1], item[2]]).collect::<Vec<_>>();
    let roots = [3.0_f64.sqrt(), 1.0];
    let rooted = (0..8).map(|index| f64::from(MASK[index]) * roots[index / 4]).collect::<Vec<_>>();

    let rows = 2;
    let apply = |operation| apply(&leaves, operation, rows);
    assert_near(&apply(Operation::Transpose { input: 0, rows: 4, columns: 3 }), &transposed);
    assert_near(&apply(Operation::ZeroUnused { input: 0, mask: 1 }), &zeroed);
    assert_near(&apply(Operation::Add { input: 0, other: 1 }), &sums);
    assert_near(&apply(Operation::Slice { input: 0, items: 4, start: 1, width: 2 }), &parts);
    assert_near(&apply(Operation::ScaleByRootCount { input: 1, mask: Some(1) }), &rooted);
}

#[test]
fn unused_items_take_the_middle_action_unless_it_is_forbidden() {
    let logits = [1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0];
    let mask = [0.0_f32, 0.0];
    let operations = vec![
        Operation::Input { leaf: 0 },
        Operation::Input { leaf: 1 },
        Operation::MaskLogits { input: 0, mask: Some(1), masked: -9.0 },
    ];
    let mut network = Network::new(vec![6, 2], operations, vec![2]).unwrap();
    let allowed = [true, true, false, true, false, true];
    let inputs = [Rows::F32(&logits), Rows::F32(&mask)];
    let mut output = [0.0; 6];

    network.forward(1, &inputs, Some(&allowed), &mut [&mut output]).unwrap();

    assert_near(&output, &[-9.0, 2.0, -9.0, 4.0, -9.0, 6.0]);
}

#[test]
fn categories_are_one_hot_and_those_out_of_range_are_refused() {
    let operations = vec![Operation::OneHot { leaf: 0, counts: vec![2, 3], starts: vec![0, -1] }];
    let mut network = Network::new(vec![2], operations, vec![0]).unwrap();
    let mut output = [7.0; 5];

    network.forward(1, &[Rows::I64(&[1, -1])], None, &mut [&mut output]).unwrap();
    assert_near(&output, &[0.0, 1.0, 1.0, 0.0, 0.0]);

    let refused = network.forward(1, &[Rows::I64(&[1, i64::MIN])], None, &mut [&mut output]);
    assert!(refused.unwrap_err().to_string().contains("expected one from -1 to 1"));
    assert_near(&output, &[0.0, 1.0, 1.0, 0.0, 0.0]);
}
