//! Programs from files: every one is built or refused, and runs without a panic.

#![allow(missing_docs, clippy::unwrap_used, clippy::too_many_lines)]

use policy::{Function, Matrix, Network, Operation, PolicyError, Rows};
use proptest::prelude::*;

fn size() -> impl Strategy<Value = usize> {
    prop_oneof![8 => 0..7_usize, 1 => Just(usize::MAX), 1 => Just(1 << 40)]
}

fn vector() -> impl Strategy<Value = Vec<f32>> {
    prop::collection::vec(prop_oneof![Just(1.0_f32), Just(f32::NAN), Just(-1e30)], 0..7)
}

fn matrix() -> impl Strategy<Value = Matrix> {
    (size(), size(), any::<bool>()).prop_map(|(rows, columns, is_whole)| {
        let count = rows.checked_mul(columns).filter(|count| *count < 100);
        let count = if is_whole { count.unwrap_or(3) } else { 3 };
        Matrix { rows, columns, numbers: vec![0.5; count] }
    })
}

fn mask() -> impl Strategy<Value = Option<usize>> {
    prop::option::of(size())
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        size().prop_map(|leaf| Operation::Input { leaf }),
        size().prop_map(|leaf| Operation::NonZero { leaf }),
        (size(), prop::collection::vec(size(), 0..4)).prop_map(|(leaf, counts)| {
            let starts = vec![0; counts.len()];
            Operation::OneHot { leaf, counts, starts }
        }),
        (size(), vector(), vector()).prop_map(|(input, mean, scale)| Operation::Normalize {
            input,
            mean,
            scale,
            clip: 10.0
        }),
        (prop::collection::vec(size(), 0..4), size())
            .prop_map(|(inputs, items)| Operation::Concatenate { inputs, items }),
        (size(), size(), size(), size()).prop_map(|(input, items, start, width)| {
            Operation::Slice { input, items, start, width }
        }),
        (size(), size(), size()).prop_map(|(input, rows, columns)| Operation::Transpose {
            input,
            rows,
            columns
        }),
        (size(), matrix(), vector()).prop_map(|(input, weight, bias)| Operation::Linear {
            input,
            weight,
            bias
        }),
        size().prop_map(|input| Operation::Activate { input, function: Function::Tanh }),
        (size(), size()).prop_map(|(input, other)| Operation::Add { input, other }),
        (size(), vector(), vector()).prop_map(|(input, weight, bias)| Operation::LayerNorm {
            input,
            weight,
            bias,
            epsilon: 1e-5
        }),
        (size(), size()).prop_map(|(input, mask)| Operation::ZeroUnused { input, mask }),
        (size(), mask()).prop_map(|(input, mask)| Operation::ScaleByRootCount { input, mask }),
        (size(), size(), mask()).prop_map(|(input, items, mask)| Operation::Mean {
            input,
            items,
            mask
        }),
        (size(), size(), mask()).prop_map(|(input, items, mask)| Operation::Max {
            input,
            items,
            mask
        }),
        (size(), size(), size(), mask()).prop_map(|(input, items, heads, mask)| {
            Operation::Attention { input, items, heads, mask }
        }),
        (matrix(), mask()).prop_map(|(near, mask)| Operation::Neighbours { near, mask }),
        (size(), size(), size(), size(), mask()).prop_map(
            |(input, items, times, channel, mask)| Operation::Correlations {
                input,
                items,
                times,
                channel,
                slope: 1.0,
                offset: 0.0,
                mask
            }
        ),
        (size(), size(), size()).prop_map(|(near, input, items)| Operation::Mix {
            near,
            input,
            items
        }),
        (size(), size(), matrix(), matrix(), vector(), vector()).prop_map(
            |(input, items, input_weight, hidden_weight, input_bias, hidden_bias)| {
                Operation::Gru {
                    input,
                    items,
                    input_weight,
                    hidden_weight,
                    input_bias,
                    hidden_bias,
                }
            }
        ),
        (size(), size(), size(), size(), size()).prop_map(
            |(input, items, times, kernel, stride)| Operation::Pieces {
                input,
                items,
                times,
                kernel,
                stride
            }
        ),
        (size(), size(), size(), size(), size(), matrix(), vector()).prop_map(
            |(input, height, width, kernel, stride, weight, bias)| Operation::Convolution {
                input,
                sides: [height, width],
                kernel,
                stride,
                weight,
                bias
            }
        ),
        (size(), mask()).prop_map(|(input, mask)| Operation::MaskLogits {
            input,
            mask,
            masked: -1e9
        }),
        (size(), vector()).prop_map(|(input, shift)| Operation::Exponent {
            input,
            shift,
            low: -5.0,
            high: 2.0
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn any_program_is_built_or_refused(
        leaves in prop::collection::vec(0..7_usize, 0..3),
        operations in prop::collection::vec(operation(), 0..6),
        output in size(),
        count in 0..3_usize,
    ) {
        // Most programs are refused at their first operation: the accepted ones form a longer one.
        let mut accepted: Vec<Operation> = Vec::new();
        for operation in operations {
            let mut longer = accepted.clone();
            longer.push(operation);
            if Network::new(leaves.clone(), longer.clone(), vec![]).is_ok() {
                accepted = longer;
            }
        }
        if let Ok(mut network) = Network::new(leaves.clone(), accepted, vec![output]) {
            let numbers = leaves.iter().map(|size| vec![0.5; size * count]).collect::<Vec<_>>();
            let rows = numbers.iter().map(|numbers| Rows::F32(numbers)).collect::<Vec<_>>();
            let mut result = vec![0.0; count * network.widths()[0]];

            network.forward(count, &rows, None, &mut [&mut result]).unwrap();
        }
    }
}

#[test]
fn errors_name_the_operation_and_the_sizes() {
    let weight = Matrix { rows: 2, columns: 3, numbers: vec![0.0; 6] };
    let linear = Operation::Linear { input: 0, weight: weight.clone(), bias: vec![] };
    let refused = |leaves, operations| Network::new(leaves, operations, vec![]).unwrap_err();

    let input = Operation::Input { leaf: 0 };
    assert_eq!(
        refused(vec![4], vec![input.clone(), linear]),
        PolicyError::Shape { operation: 1, part: "input", got: 4, expected: 3 }
    );
    assert_eq!(
        refused(vec![], vec![input]),
        PolicyError::UnknownLeaf { operation: 0, leaf: 0, available: 0 }
    );
    let short = Matrix { numbers: vec![0.0; 5], ..weight };
    let linear = Operation::Linear { input: 0, weight: short, bias: vec![] };
    assert_eq!(
        refused(vec![3], vec![Operation::Input { leaf: 0 }, linear]),
        PolicyError::Shape { operation: 1, part: "weight", got: 5, expected: 6 }
    );
}
