//! Networks: validated programs with their scratch memory.

use crate::dispatch::{Run, Width};
use crate::operation::Operation;
use crate::plan::{Step, plan};
use crate::rows::Rows;
use crate::{InputError, PolicyError};

/// Rows that are computed together, so that intermediate values stay in the cache.
const CHUNK_ROWS: usize = 64;

/// Numbers of scratch memory beyond which fewer rows are computed together.
const CHUNK_NUMBERS: usize = 1 << 18;

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
            arch: Width::new(),
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
