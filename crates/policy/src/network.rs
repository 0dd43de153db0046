//! Networks: validated programs with their scratch memory.

#![allow(clippy::inline_always)] // steps are compiled for the widest registers, with all they call

use pulp::{Arch, NullaryFnOnce};

use crate::functions::{bounded, exp, sigmoid, silu, tanh};
#[cfg(target_arch = "x86_64")]
use crate::lanes::Avx;
use crate::lanes::{Machine, Plain, dot, sum};
use crate::operation::{Function, Operation};
use crate::plan::{Step, plan};
use crate::{InputError, PolicyError, assets, windows};

/// Rows that are computed together, so that intermediate values stay in the cache.
const CHUNK_ROWS: usize = 64;

/// Numbers of scratch memory beyond which fewer rows are computed together.
const CHUNK_NUMBERS: usize = 1 << 18;

/// Rows of one leaf, as the env gives them.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub enum Rows<'a> {
    F32(&'a [f32]),
    F64(&'a [f64]),
    I64(&'a [i64]),
    I32(&'a [i32]),
    I8(&'a [i8]),
    U8(&'a [u8]),
    Bool(&'a [bool]),
}

/// Repeat an expression for the numbers of every type.
macro_rules! each_type {
    ($rows:expr, $numbers:ident => $result:expr) => {
        match $rows {
            Rows::F32($numbers) => $result,
            Rows::F64($numbers) => $result,
            Rows::I64($numbers) => $result,
            Rows::I32($numbers) => $result,
            Rows::I8($numbers) => $result,
            Rows::U8($numbers) => $result,
            Rows::Bool($numbers) => $result,
        }
    };
}

impl Rows<'_> {
    /// True if a number of a mask is not zero.
    pub(crate) fn is_set(self, index: usize) -> bool {
        each_type!(self, numbers => numbers[index].to_float() != 0.0)
    }

    pub(crate) fn len(self) -> usize {
        each_type!(self, numbers => numbers.len())
    }

    fn part(self, first: usize, end: usize) -> Self {
        match self {
            Self::F32(numbers) => Self::F32(&numbers[first..end]),
            Self::F64(numbers) => Self::F64(&numbers[first..end]),
            Self::I64(numbers) => Self::I64(&numbers[first..end]),
            Self::I32(numbers) => Self::I32(&numbers[first..end]),
            Self::I8(numbers) => Self::I8(&numbers[first..end]),
            Self::U8(numbers) => Self::U8(&numbers[first..end]),
            Self::Bool(numbers) => Self::Bool(&numbers[first..end]),
        }
    }

    fn write_floats(self, output: &mut [f32]) {
        each_type!(self, numbers => {
            for (output, number) in output.iter_mut().zip(numbers) {
                *output = number.to_float();
            }
        });
    }

    fn category(self, index: usize) -> i64 {
        each_type!(self, numbers => numbers[index].to_category())
    }
}

/// Conversion of numbers of observations.
trait Number: Copy {
    fn to_float(self) -> f32;
    fn to_category(self) -> i64;
}

macro_rules! numbers {
    ($($kind:ty),*) => {
        $(
            #[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss)]
            #[allow(clippy::cast_lossless, clippy::unnecessary_cast)]
            impl Number for $kind {
                #[inline(always)]
                fn to_float(self) -> f32 {
                    self as f32
                }
                fn to_category(self) -> i64 {
                    self as i64
                }
            }
        )*
    };
}

numbers!(f32, f64, i64, i32, i8, u8);

impl Number for bool {
    fn to_float(self) -> f32 {
        f32::from(self)
    }
    fn to_category(self) -> i64 {
        i64::from(self)
    }
}

/// A program that is ready to run.
#[derive(Clone, Debug)]
pub struct Network {
    leaves: Vec<usize>,
    steps: Vec<Step>,
    outputs: Vec<usize>,
    choices: usize,
    values: Vec<Vec<f32>>,
    sizes: Vec<usize>,
    scratch: Vec<f32>,
    capacity: usize,
    arch: Width,
}

impl Network {
    /// Validate a program and allocate its memory.
    ///
    /// `leaves` are the numbers in a row of each leaf, `outputs` the values that `forward` returns.
    ///
    /// # Errors
    ///
    /// Sizes that do not fit, or do not fit memory.
    pub fn new(
        leaves: Vec<usize>,
        operations: Vec<Operation>,
        outputs: Vec<usize>,
    ) -> Result<Self, PolicyError> {
        let plan = plan(&leaves, operations, &outputs)?;
        let capacity = (CHUNK_NUMBERS / plan.row.max(1)).clamp(1, CHUNK_ROWS);
        let sizes: Vec<usize> = plan.steps.iter().map(|step| step.size).collect();
        let values = sizes.iter().map(|size| vec![0.0; size * capacity]).collect();
        Ok(Self {
            leaves,
            steps: plan.steps,
            outputs,
            choices: plan.choices,
            values,
            sizes,
            scratch: vec![0.0; plan.scratch],
            capacity,
            arch: Width(Arch::new()),
        })
    }

    /// Numbers in a row of each output.
    #[must_use]
    pub fn widths(&self) -> Vec<usize> {
        self.outputs.iter().map(|output| self.sizes[*output]).collect()
    }

    /// Multiplications of one row, roughly.
    #[must_use]
    pub fn work(&self) -> usize {
        self.steps.iter().map(|step| step.work).fold(0, usize::saturating_add)
    }

    /// Compute the outputs of `count` rows.
    ///
    /// `allowed` is the mask of allowed actions, `count` by the number of logits; None allows all.
    ///
    /// # Errors
    ///
    /// Inputs of other sizes, or categories out of range; outputs are unchanged then.
    pub fn forward(
        &mut self,
        count: usize,
        inputs: &[Rows<'_>],
        allowed: Option<&[bool]>,
        outputs: &mut [&mut [f32]],
    ) -> Result<(), InputError> {
        self.check(count, inputs, allowed, outputs)?;
        let mut first = 0;
        while first < count {
            let rows = self.capacity.min(count - first);
            for index in 0..self.steps.len() {
                let mut output = std::mem::take(&mut self.values[index]);
                let step = &self.steps[index];
                let run = Run {
                    step,
                    first,
                    rows,
                    inputs,
                    leaves: &self.leaves,
                    allowed,
                    values: &self.values,
                    sizes: &self.sizes,
                    scratch: &mut self.scratch,
                    output: &mut output[..rows * step.size],
                };
                self.arch.run(run);
                self.values[index] = output;
            }
            for (value, output) in self.outputs.iter().zip(outputs.iter_mut()) {
                let size = self.sizes[*value];
                output[first * size..(first + rows) * size]
                    .copy_from_slice(&self.values[*value][..rows * size]);
            }
            first += rows;
        }
        Ok(())
    }

    fn check(
        &self,
        count: usize,
        inputs: &[Rows<'_>],
        allowed: Option<&[bool]>,
        outputs: &[&mut [f32]],
    ) -> Result<(), InputError> {
        if inputs.len() != self.leaves.len() {
            return Err(InputError::Leaves { expected: self.leaves.len(), got: inputs.len() });
        }
        for (rows, size) in inputs.iter().zip(&self.leaves) {
            same("a leaf", rows.len(), count, *size)?;
        }
        if let Some(allowed) = allowed {
            same("the action mask", allowed.len(), count, self.choices)?;
        }
        if outputs.len() != self.outputs.len() {
            return Err(InputError::Leaves { expected: self.outputs.len(), got: outputs.len() });
        }
        for (output, value) in outputs.iter().zip(&self.outputs) {
            same("an output", output.len(), count, self.sizes[*value])?;
        }
        for step in &self.steps {
            if let Operation::OneHot { leaf, counts, starts } = &step.operation {
                check_categories(*leaf, inputs[*leaf], counts, starts)?;
            }
        }
        Ok(())
    }
}

fn same(part: &'static str, got: usize, count: usize, size: usize) -> Result<(), InputError> {
    let expected = count.saturating_mul(size);
    if got == expected { Ok(()) } else { Err(InputError::Size { part, expected, got }) }
}

fn check_categories(
    leaf: usize,
    rows: Rows<'_>,
    counts: &[usize],
    starts: &[i64],
) -> Result<(), InputError> {
    for index in 0..rows.len() {
        let (count, first) = (counts[index % counts.len()], starts[index % counts.len()]);
        let value = rows.category(index);
        let is_known = value
            .checked_sub(first)
            .and_then(|offset| usize::try_from(offset).ok())
            .is_some_and(|offset| offset < count);
        if !is_known {
            let last = first.saturating_add_unsigned(count as u64 - 1);
            return Err(InputError::Category { leaf, value, first, last });
        }
    }
    Ok(())
}

/// One operation over the rows of a chunk.
struct Run<'a> {
    step: &'a Step,
    first: usize,
    rows: usize,
    inputs: &'a [Rows<'a>],
    leaves: &'a [usize],
    allowed: Option<&'a [bool]>,
    values: &'a [Vec<f32>],
    sizes: &'a [usize],
    scratch: &'a mut [f32],
    output: &'a mut [f32],
}

/// Registers of this machine.
#[derive(Clone, Copy, Debug)]
struct Width(Arch);

impl Width {
    fn run(self, run: Run<'_>) {
        #[cfg(target_arch = "x86_64")]
        if let Arch::V3(machine) = self.0 {
            return machine.vectorize(On { machine: Avx(machine), run });
        }
        On { machine: Plain, run }.call();
    }
}

/// An operation on a machine, with which all that it calls is compiled.
struct On<'a, M> {
    machine: M,
    run: Run<'a>,
}

impl<M: Machine> NullaryFnOnce for On<'_, M> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        run(self.machine, self.run);
    }
}

impl<'a> Run<'a> {
    /// Numbers of an earlier value.
    #[inline(always)]
    fn value(&self, index: usize) -> &'a [f32] {
        let values = &self.values[index];
        // Values have memory for `capacity` rows, of which `rows` are in use.
        &values[..self.rows * self.sizes[index]]
    }

    #[inline(always)]
    fn mask(&self, mask: Option<usize>) -> Option<&'a [f32]> {
        mask.map(|index| self.value(index))
    }

    #[inline(always)]
    fn leaf(&self, leaf: usize) -> Rows<'a> {
        let size = self.leaves[leaf];
        self.inputs[leaf].part(self.first * size, (self.first + self.rows) * size)
    }
}

#[inline(always)]
#[allow(clippy::too_many_lines)] // one arm for each operation
fn run<M: Machine>(machine: M, mut run: Run<'_>) {
    let step = run.step;
    let rows = run.rows;
    let scratch = std::mem::take(&mut run.scratch);
    let output = std::mem::take(&mut run.output);
    match &step.operation {
        Operation::Input { leaf } => run.leaf(*leaf).write_floats(output),
        Operation::OneHot { leaf, counts, starts } => {
            one_hot(run.leaf(*leaf), counts, starts, output);
        }
        Operation::NonZero { leaf } => {
            run.leaf(*leaf).write_floats(output);
            for number in output.iter_mut() {
                *number = f32::from(*number != 0.0);
            }
        }
        Operation::Scale { input, factor } => {
            for (output, number) in output.iter_mut().zip(run.value(*input)) {
                *output = number * factor;
            }
        }
        Operation::Normalize { input, mean, scale, clip } => {
            let width = mean.len();
            let items = output.chunks_exact_mut(width).zip(run.value(*input).chunks_exact(width));
            for (output, numbers) in items {
                let moments = mean.iter().zip(scale);
                for ((output, number), (mean, scale)) in output.iter_mut().zip(numbers).zip(moments)
                {
                    *output = bounded((number - mean) * scale, -clip, *clip);
                }
            }
        }
        Operation::Concatenate { inputs, items } => {
            let total = step.size / items;
            let mut start = 0;
            for input in inputs {
                let width = run.sizes[*input] / items;
                if width == 0 {
                    continue;
                }
                let parts = run.value(*input).chunks_exact(width);
                for (output, part) in output.chunks_exact_mut(total).zip(parts) {
                    output[start..start + width].copy_from_slice(part);
                }
                start += width;
            }
        }
        Operation::Slice { input, items, start, width } => {
            let whole = run.sizes[*input] / items;
            let items = run.value(*input).chunks_exact(whole);
            for (output, item) in output.chunks_exact_mut(*width).zip(items) {
                output.copy_from_slice(&item[*start..start + width]);
            }
        }
        Operation::Transpose { input, rows, columns } => {
            let width = step.size / (rows * columns);
            for (output, numbers) in
                output.chunks_exact_mut(step.size).zip(run.value(*input).chunks_exact(step.size))
            {
                for (index, output) in output.chunks_exact_mut(width).enumerate() {
                    let from = (index % rows * columns + index / rows) * width;
                    output.copy_from_slice(&numbers[from..from + width]);
                }
            }
        }
        Operation::Linear { input, .. } => {
            step.layers[0].multiply(machine, run.value(*input), output);
        }
        Operation::Activate { input, function } => {
            output.copy_from_slice(run.value(*input));
            activate(*function, output);
        }
        Operation::Add { input, other } => add(run.value(*input), run.value(*other), output, rows),
        Operation::LayerNorm { input, weight, bias, epsilon } => {
            layer_norm(machine, run.value(*input), [weight, bias], *epsilon, output);
        }
        Operation::ZeroUnused { input, mask } => {
            let mask = run.value(*mask);
            let width = output.len() / mask.len().max(1);
            output.copy_from_slice(run.value(*input));
            for (output, used) in output.chunks_exact_mut(width).zip(mask) {
                if *used == 0.0 {
                    output.fill(0.0);
                }
            }
        }
        Operation::ScaleByRootCount { input, mask } => {
            let size = step.size;
            let mask = run.mask(*mask);
            for (row, (output, numbers)) in
                output.chunks_exact_mut(size).zip(run.value(*input).chunks_exact(size)).enumerate()
            {
                let factor = assets::count(assets::row(mask, row, size), size).sqrt();
                for (output, number) in output.iter_mut().zip(numbers) {
                    *output = number * factor;
                }
            }
        }
        Operation::Mean { input, items, mask } => {
            assets::mean(run.value(*input), run.mask(*mask), *items, step.size, output);
        }
        Operation::Max { input, items, mask } => {
            assets::max(run.value(*input), run.mask(*mask), *items, step.size, output);
        }
        Operation::Attention { input, items, heads, mask } => {
            let (mask, shape) = (run.mask(*mask), [*items, step.size / items, *heads]);
            assets::attention(machine, run.value(*input), mask, shape, scratch, output);
        }
        Operation::Neighbours { near, mask } => {
            let mask = run.mask(*mask);
            for (row, output) in output.chunks_exact_mut(step.size).enumerate() {
                output.copy_from_slice(&near.numbers);
                assets::weigh(machine, output, assets::row(mask, row, near.rows), near.rows);
            }
        }
        Operation::Correlations { input, items, times, channel, slope, offset, mask } => {
            let shape = [*items, *times, run.sizes[*input] / (items * times)];
            let line = assets::Line { slope: *slope, offset: *offset };
            let mask = run.mask(*mask);
            assets::correlations(
                machine,
                run.value(*input),
                shape,
                *channel,
                line,
                mask,
                scratch,
                output,
            );
        }
        Operation::Mix { near, input, items } => {
            assets::mix(run.value(*near), run.value(*input), *items, output);
        }
        Operation::Gru { input, items, .. } => {
            windows::gru(
                machine,
                [&step.layers[0], &step.layers[1]],
                run.value(*input),
                *items,
                scratch,
                output,
            );
        }
        Operation::Pieces { input, items, times, kernel, stride } => {
            let channels = run.sizes[*input] / (items * times);
            windows::pieces(run.value(*input), *times, channels, *kernel, *stride, output);
        }
        Operation::Convolution { input, sides, kernel, stride, .. } => {
            let size = run.sizes[*input];
            let shape = windows::Image {
                width: sides[1],
                channels: size / (sides[0] * sides[1]),
                kernel: *kernel,
                stride: *stride,
                columns: (sides[1] - kernel) / stride + 1,
            };
            for (image, output) in
                run.value(*input).chunks_exact(size).zip(output.chunks_exact_mut(step.size))
            {
                windows::convolution(machine, &step.layers[0], image, &shape, scratch, output);
            }
        }
        Operation::MaskLogits { input, mask, masked } => {
            output.copy_from_slice(run.value(*input));
            let first = run.first * step.size;
            let allowed = run.allowed.map(|allowed| &allowed[first..first + output.len()]);
            mask_logits(output, allowed, run.mask(*mask), *masked);
        }
        Operation::Exponent { input, shift, low, high } => {
            let rows = output.chunks_exact_mut(shift.len());
            for (output, numbers) in rows.zip(run.value(*input).chunks_exact(shift.len())) {
                for ((output, number), shift) in output.iter_mut().zip(numbers).zip(shift) {
                    *output = exp(bounded(number + shift, *low, *high));
                }
            }
        }
    }
}

fn one_hot(rows: Rows<'_>, counts: &[usize], starts: &[i64], output: &mut [f32]) {
    output.fill(0.0);
    let mut first = 0;
    for index in 0..rows.len() {
        let choice = index % counts.len();
        let offset = rows.category(index).wrapping_sub(starts[choice]);
        // Categories were checked before.
        if let Some(hot) = usize::try_from(offset).ok().and_then(|o| output.get_mut(first + o)) {
            *hot = 1.0;
        }
        first += counts[choice];
    }
}

/// Loops instead of closures, which would be compiled for narrow registers where not inlined.
#[inline(always)]
fn activate(function: Function, numbers: &mut [f32]) {
    match function {
        Function::Tanh => {
            for number in numbers {
                *number = tanh(*number);
            }
        }
        Function::Silu => {
            for number in numbers {
                *number = silu(*number);
            }
        }
        Function::Sigmoid => {
            for number in numbers {
                *number = sigmoid(*number);
            }
        }
        Function::Relu => {
            for number in numbers {
                // Not `max`, which would replace NaN.
                *number = if *number < 0.0 { 0.0 } else { *number };
            }
        }
    }
}

#[inline(always)]
fn add(numbers: &[f32], other: &[f32], output: &mut [f32], rows: usize) {
    let (size, width) = (output.len() / rows, other.len() / rows);
    let groups = numbers.chunks_exact(size).zip(other.chunks_exact(width));
    for (output, (numbers, other)) in output.chunks_exact_mut(size).zip(groups) {
        for (output, numbers) in output.chunks_exact_mut(width).zip(numbers.chunks_exact(width)) {
            for ((output, number), other) in output.iter_mut().zip(numbers).zip(other) {
                *output = number + other;
            }
        }
    }
}

#[inline(always)]
fn layer_norm<M: Machine>(
    machine: M,
    numbers: &[f32],
    [weight, bias]: [&[f32]; 2],
    epsilon: f32,
    output: &mut [f32],
) {
    let width = weight.len();
    #[allow(clippy::cast_precision_loss)]
    let share = 1.0 / width as f32;
    for (output, numbers) in output.chunks_exact_mut(width).zip(numbers.chunks_exact(width)) {
        let mean = sum(machine, numbers) * share;
        for (output, number) in output.iter_mut().zip(numbers) {
            *output = number - mean;
        }
        let variance = dot(machine, output, output) * share;
        let scale = 1.0 / (variance + epsilon).sqrt();
        for ((output, weight), bias) in output.iter_mut().zip(weight).zip(bias) {
            *output = (*output * scale).mul_add(*weight, *bias);
        }
    }
}

fn mask_logits(logits: &mut [f32], allowed: Option<&[bool]>, used: Option<&[f32]>, masked: f32) {
    let Some(used) = used else {
        let pairs = logits.iter_mut().zip(allowed.into_iter().flatten());
        pairs.filter(|(_, is_allowed)| !**is_allowed).for_each(|(logit, _)| *logit = masked);
        return;
    };
    let width = logits.len() / used.len().max(1);
    let middle = width / 2;
    for (item, (logits, used)) in logits.chunks_exact_mut(width).zip(used).enumerate() {
        let allowed = allowed.map(|allowed| &allowed[item * width..(item + 1) * width]);
        let is_allowed = |choice: usize| allowed.is_none_or(|allowed| allowed[choice]);
        let is_fixed = *used == 0.0 && is_allowed(middle);
        for (choice, logit) in logits.iter_mut().enumerate() {
            if !is_allowed(choice) || (is_fixed && choice != middle) {
                *logit = masked;
            }
        }
    }
}
