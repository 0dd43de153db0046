//! Validation of programs: the size of every value, packed layers and scratch memory.

use crate::PolicyError;
use crate::dense::{Dense, PANEL};
use crate::operation::{Matrix, Operation};

/// Largest number of numbers in a row, over all values.
pub(crate) const MAX_ROW: usize = 1 << 28;

/// An operation with its packed layers.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) operation: Operation,
    pub(crate) layers: Vec<Dense>,
    /// Numbers of the value in a row.
    pub(crate) size: usize,
    /// Multiplications of a row, roughly.
    pub(crate) work: usize,
}

/// A validated program.
pub(crate) struct Plan {
    pub(crate) steps: Vec<Step>,
    /// Numbers of all values of a row.
    pub(crate) row: usize,
    pub(crate) scratch: usize,
    /// Number of logits that an action mask has.
    pub(crate) choices: usize,
}

/// Validate the operations of a program in their order.
pub(crate) fn plan(
    leaves: &[usize],
    operations: Vec<Operation>,
    outputs: &[usize],
) -> Result<Plan, PolicyError> {
    if operations.is_empty() {
        return Err(PolicyError::NoOperations);
    }
    let mut plan = Plan { steps: Vec::new(), row: 0, scratch: 0, choices: 0 };
    for mut operation in operations {
        let check = Check { operation: plan.steps.len(), leaves, steps: &plan.steps };
        let needs = check.needs(&operation)?;
        let row = plan.row.checked_add(needs.size).filter(|row| *row <= MAX_ROW);
        plan.row = row.ok_or(PolicyError::TooLarge { limit: MAX_ROW })?;
        plan.scratch = plan.scratch.max(needs.scratch);
        if plan.scratch > MAX_ROW {
            return Err(PolicyError::TooLarge { limit: MAX_ROW });
        }
        if matches!(operation, Operation::MaskLogits { .. }) {
            plan.choices = needs.size;
        }
        let layers = packed(&mut operation);
        let weights =
            layers.iter().map(|layer| layer.inputs * layer.outputs.next_multiple_of(PANEL));
        let work = weights.sum::<usize>().saturating_mul(needs.items).saturating_add(needs.size);
        plan.steps.push(Step { operation, layers, size: needs.size, work });
    }
    let end = Check { operation: plan.steps.len(), leaves, steps: &plan.steps };
    for output in outputs {
        end.size(*output)?;
    }
    Ok(plan)
}

/// Packed layers of an operation, whose weights are released.
fn packed(operation: &mut Operation) -> Vec<Dense> {
    match operation {
        Operation::Linear { weight, bias, .. } | Operation::Convolution { weight, bias, .. } => {
            let layer = Dense::new(weight, bias);
            weight.numbers = Vec::new();
            vec![layer]
        }
        Operation::Gru { input_weight, hidden_weight, input_bias, hidden_bias, .. } => {
            let layers =
                vec![Dense::new(input_weight, input_bias), Dense::new(hidden_weight, hidden_bias)];
            input_weight.numbers = Vec::new();
            hidden_weight.numbers = Vec::new();
            layers
        }
        _ => Vec::new(),
    }
}

/// Memory of an operation.
struct Needs {
    size: usize,
    scratch: usize,
    /// Rows of its layers.
    items: usize,
}

impl Needs {
    fn value(size: usize) -> Self {
        Self { size, scratch: 0, items: 1 }
    }
}

/// Product of sizes, if a row can have as many numbers.
fn product(parts: &[usize]) -> Checked {
    let product = parts.iter().try_fold(1_usize, |product, part| product.checked_mul(*part));
    product.filter(|size| *size <= MAX_ROW).ok_or(PolicyError::TooLarge { limit: MAX_ROW })
}

struct Check<'a> {
    operation: usize,
    leaves: &'a [usize],
    steps: &'a [Step],
}

type Checked = Result<usize, PolicyError>;

impl Check<'_> {
    fn size(&self, value: usize) -> Checked {
        let (operation, available) = (self.operation, self.steps.len());
        let step = self.steps.get(value);
        step.map(|step| step.size).ok_or(PolicyError::UnknownValue { operation, value, available })
    }

    fn leaf(&self, leaf: usize) -> Checked {
        let (operation, available) = (self.operation, self.leaves.len());
        let size = self.leaves.get(leaf).copied();
        size.ok_or(PolicyError::UnknownLeaf { operation, leaf, available })
    }

    fn equal(&self, part: &'static str, got: usize, expected: usize) -> Result<(), PolicyError> {
        let operation = self.operation;
        let is_equal = got == expected;
        if is_equal { Ok(()) } else { Err(PolicyError::Shape { operation, part, got, expected }) }
    }

    fn positive(&self, part: &'static str, count: usize) -> Checked {
        let operation = self.operation;
        if count == 0 { Err(PolicyError::Empty { operation, part }) } else { Ok(count) }
    }

    /// Quotient of a size and a divisor that must divide it.
    fn divided(&self, part: &'static str, size: usize, by: usize) -> Checked {
        self.positive(part, by)?;
        self.equal(part, size, size / by * by)?;
        Ok(size / by)
    }

    fn mask(&self, mask: Option<usize>, items: usize) -> Result<(), PolicyError> {
        mask.map_or(Ok(()), |mask| self.equal("mask", self.size(mask)?, items))
    }

    /// Outputs of a layer.
    fn layer(&self, weight: &Matrix, bias: &[f32]) -> Checked {
        self.positive("outputs", weight.rows)?;
        self.positive("inputs", weight.columns)?;
        self.equal("weight", weight.numbers.len(), product(&[weight.rows, weight.columns])?)?;
        // Panels are padded.
        product(&[weight.rows.next_multiple_of(PANEL), weight.columns])?;
        if !bias.is_empty() {
            self.equal("bias", bias.len(), weight.rows)?;
        }
        Ok(weight.rows)
    }

    fn needs(&self, operation: &Operation) -> Result<Needs, PolicyError> {
        let size = match operation {
            Operation::Input { leaf } | Operation::NonZero { leaf } => self.leaf(*leaf)?,
            Operation::OneHot { leaf, counts, starts } => {
                self.positive("categories", counts.iter().copied().min().unwrap_or(0))?;
                self.equal("leaf", self.leaf(*leaf)?, counts.len())?;
                self.equal("starts", starts.len(), counts.len())?;
                let total = counts.iter().try_fold(0_usize, |sum, count| sum.checked_add(*count));
                total.ok_or(PolicyError::TooLarge { limit: MAX_ROW })?
            }
            Operation::Scale { input, .. } | Operation::Activate { input, .. } => {
                self.size(*input)?
            }
            Operation::Normalize { input, mean, scale, .. } => {
                self.equal("scale", scale.len(), mean.len())?;
                let size = self.size(*input)?;
                self.divided("mean", size, mean.len())?;
                size
            }
            Operation::LayerNorm { input, weight, bias, .. } => {
                self.equal("bias", bias.len(), weight.len())?;
                let size = self.size(*input)?;
                self.divided("weight", size, weight.len())?;
                size
            }
            Operation::Exponent { input, shift, .. } => {
                self.positive("shift", shift.len())?;
                self.equal("shift", shift.len(), self.size(*input)?)?;
                shift.len()
            }
            Operation::Concatenate { inputs, items } => {
                let mut size = 0_usize;
                for input in inputs {
                    let part = self.size(*input)?;
                    self.divided("items", part, *items)?;
                    size = size.saturating_add(part);
                }
                self.positive("inputs", size)?
            }
            Operation::Slice { input, items, start, width } => {
                let whole = self.divided("items", self.size(*input)?, *items)?;
                self.positive("slice", *width)?;
                let end = start.saturating_add(*width);
                self.equal("slice", end, end.min(whole))?;
                product(&[*items, *width])?
            }
            Operation::Transpose { input, rows, columns } => {
                let size = self.size(*input)?;
                let width = self.divided("axes", size, product(&[*rows, *columns])?)?;
                self.positive("axes", width)?;
                size
            }
            Operation::Add { input, other } => {
                let size = self.positive("width", self.size(*input)?)?;
                self.divided("addend", size, self.size(*other)?)?;
                size
            }
            Operation::ZeroUnused { input, mask } => {
                let size = self.size(*input)?;
                self.positive("width", self.divided("mask", size, self.size(*mask)?)?)?;
                size
            }
            Operation::ScaleByRootCount { input, mask } => {
                let size = self.positive("items", self.size(*input)?)?;
                self.mask(*mask, size)?;
                size
            }
            Operation::Mean { input, items, mask } | Operation::Max { input, items, mask } => {
                self.mask(*mask, *items)?;
                self.positive("width", self.divided("items", self.size(*input)?, *items)?)?
            }
            Operation::Mix { near, input, items } => {
                self.equal("edges", self.size(*near)?, product(&[*items, *items])?)?;
                let size = self.size(*input)?;
                self.positive("width", self.divided("items", size, *items)?)?;
                size
            }
            Operation::Neighbours { near, mask } => {
                self.positive("items", near.rows)?;
                self.equal("columns", near.columns, near.rows)?;
                self.equal("edges", near.numbers.len(), product(&[near.rows, near.rows])?)?;
                self.mask(*mask, near.rows)?;
                near.numbers.len()
            }
            Operation::MaskLogits { input, mask, .. } => {
                let size = self.positive("logits", self.size(*input)?)?;
                if let Some(mask) = mask {
                    self.positive("width", self.divided("mask", size, self.size(*mask)?)?)?;
                }
                size
            }
            _ => return self.layered(operation),
        };
        Ok(Needs::value(size))
    }

    /// Operations with layers or scratch memory.
    fn layered(&self, operation: &Operation) -> Result<Needs, PolicyError> {
        match operation {
            Operation::Linear { input, weight, bias } => {
                let outputs = self.layer(weight, bias)?;
                let items = self.divided("input", self.size(*input)?, weight.columns)?;
                self.positive("input", items)?;
                Ok(Needs { size: product(&[items, outputs])?, scratch: 0, items })
            }
            Operation::Attention { input, items, heads, mask } => {
                self.mask(*mask, *items)?;
                let each = self.divided("items", self.size(*input)?, *items)?;
                let width = self.positive("width", self.divided("queries", each, 3)?)?;
                self.positive("heads", self.divided("heads", width, *heads)?)?;
                Ok(Needs { size: product(&[*items, width])?, scratch: *items, items: *items })
            }
            Operation::Correlations { input, items, times, channel, mask, .. } => {
                self.mask(*mask, *items)?;
                let scratch = product(&[*items, *times])?;
                let channels = self.divided("windows", self.size(*input)?, scratch)?;
                self.equal("channels", channel.saturating_add(1).max(channels), channels)?;
                Ok(Needs { size: product(&[*items, *items])?, scratch, items: *times })
            }
            Operation::Gru {
                input,
                items,
                input_weight,
                hidden_weight,
                input_bias,
                hidden_bias,
            } => {
                let gates = self.layer(input_weight, input_bias)?;
                self.equal("hidden gates", self.layer(hidden_weight, hidden_bias)?, gates)?;
                let hidden = hidden_weight.columns;
                self.equal("gates", gates, product(&[3, hidden])?)?;
                let window = self.divided("items", self.size(*input)?, *items)?;
                let times = self.divided("windows", window, input_weight.columns)?;
                self.positive("times", times)?;
                let scratch = product(&[*items, times + 1, gates])?;
                Ok(Needs { size: product(&[*items, hidden])?, scratch, items: items * times })
            }
            Operation::Pieces { input, items, times, kernel, stride } => {
                self.positive("stride", *stride)?;
                self.equal("kernel", *kernel, *kernel.max(stride))?;
                let rows = product(&[*items, *times])?;
                let channels = self.divided("windows", self.size(*input)?, rows)?;
                self.positive("channels", channels)?;
                let pieces = times.div_ceil(*stride);
                Ok(Needs::value(product(&[*items, pieces, *kernel, channels])?))
            }
            Operation::Convolution { input, sides, kernel, stride, weight, bias } => {
                let outputs = self.layer(weight, bias)?;
                self.positive("stride", *stride)?;
                let pixels = product(sides)?;
                let channels = self.divided("pixels", self.size(*input)?, pixels)?;
                let inputs = product(&[*kernel, *kernel, channels])?;
                self.equal("kernel", weight.columns, inputs)?;
                self.equal(
                    "kernel side",
                    (*kernel).max(sides[0].min(sides[1])),
                    sides[0].min(sides[1]),
                )?;
                let [height, width] = sides.map(|side| (side - kernel) / stride + 1);
                let items = product(&[height, width])?;
                let scratch = product(&[items, inputs])?;
                Ok(Needs { size: product(&[items, outputs])?, scratch, items })
            }
            _ => unreachable!("operations without layers are handled before"),
        }
    }
}
