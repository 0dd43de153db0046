//! Observations made of several parts, each with its own type of number and its own shape.

/// The shape of one env's part of an observation. An empty part is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    axes: [usize; Self::MOST_AXES],
    rank: usize,
    /// Cached: every row of every step needs it.
    len: usize,
}

impl Shape {
    /// Largest number of axes of a part.
    pub const MOST_AXES: usize = 4;

    /// Shape of an absent part.
    pub const NONE: Self = Self::new([0]);

    /// A shape with these axes, at most four; none for a scalar.
    #[must_use]
    pub const fn new<const RANK: usize>(axes: [usize; RANK]) -> Self {
        const { assert!(RANK <= Self::MOST_AXES, "a part has at most four axes") };
        let (mut shape, mut axis) = (Self { axes: [1; Self::MOST_AXES], rank: RANK, len: 1 }, 0);
        while axis < RANK {
            shape.axes[axis] = axes[axis];
            shape.len *= axes[axis];
            axis += 1;
        }
        shape
    }

    /// Its axes.
    #[must_use]
    pub fn axes(&self) -> &[usize] {
        &self.axes[..self.rank]
    }

    /// Number of values.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Return true if the part is empty.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// Define an observation made of parts from a list of names and types of number: owned buffers,
/// the rows that a task writes into, and the layout with the shape of each.
///
/// ```
/// gym::parts! {
///     /// Observation of a walker.
///     pub struct Walk, rows WalkRows, layout WalkLayout {
///         /// Heights around it.
///         heights: f32,
///         /// Mask of open directions.
///         ways: bool,
///     }
/// }
///
/// use gym::{Observation, Shape};
/// let layout = WalkLayout { heights: Shape::new([3, 3]), ways: Shape::new([4]) };
/// let mut memory = Walk::zeros(&layout, 2);
/// Walk::row(&mut memory.rows(), &layout, 1).ways[3] = true;
/// assert_eq!(memory.ways, [false, false, false, false, false, false, false, true]);
/// ```
#[macro_export]
macro_rules! parts {
    (
        $(#[$meta:meta])*
        $vis:vis struct $memory:ident, rows $rows:ident, layout $layout:ident {
            $($(#[$part_meta:meta])* $part:ident: $number:ty),+ $(,)?
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq)]
        $vis struct $memory {
            $($(#[$part_meta])* pub $part: Vec<$number>,)+
        }

        #[doc = concat!("Rows of [`", stringify!($memory), "`], to write into.")]
        #[derive(Debug)]
        $vis struct $rows<'a> {
            $($(#[$part_meta])* pub $part: &'a mut [$number],)+
        }

        #[doc = concat!("The shapes of the parts of [`", stringify!($memory), "`], of one env.")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $vis struct $layout {
            $($(#[$part_meta])* pub $part: $crate::Shape,)+
        }

        impl $crate::Observation for $memory {
            type Layout = $layout;
            type Rows<'a> = $rows<'a>;

            fn zeros(layout: &$layout, num_envs: usize) -> Self {
                Self { $($part: vec![<$number>::default(); num_envs * layout.$part.len()],)+ }
            }

            fn rows(&mut self) -> $rows<'_> {
                $rows { $($part: &mut self.$part,)+ }
            }

            fn check(
                rows: &$rows<'_>,
                name: &'static str,
                layout: &$layout,
                num_envs: usize,
            ) -> Result<(), $crate::BatchError> {
                $({
                    let (expected, got) = (num_envs * layout.$part.len(), rows.$part.len());
                    if expected != got {
                        let part = stringify!($part);
                        return Err($crate::BatchError::PartLength { name, part, expected, got });
                    }
                })+
                Ok(())
            }

            fn split<'a>(
                rows: $rows<'a>,
                layout: &$layout,
                count: usize,
            ) -> ($rows<'a>, $rows<'a>)
            where
                'a: 'a, // as for a row of numbers
            {
                $(let $part = rows.$part.split_at_mut(count * layout.$part.len());)+
                ($rows { $($part: $part.0,)+ }, $rows { $($part: $part.1,)+ })
            }

            #[inline]
            fn row<'a>(rows: &'a mut $rows<'_>, layout: &$layout, env: usize) -> $rows<'a> {
                $(let $part = &mut rows.$part[env * layout.$part.len()..][..layout.$part.len()];)+
                $rows { $($part,)+ }
            }

            fn reborrow<'a>(rows: &'a mut $rows<'_>) -> $rows<'a> {
                $rows { $($part: &mut *rows.$part,)+ }
            }

            fn names() -> &'static [&'static str] {
                &[$(stringify!($part)),+]
            }

            fn numbers<'a>(rows: &'a $rows<'_>) -> Vec<$crate::Numbers<'a>> {
                vec![$(<$number as $crate::Number>::numbers(&*rows.$part)),+]
            }

            #[inline]
            fn copy(from: &$rows<'_>, into: &mut $rows<'_>) {
                $(into.$part.copy_from_slice(from.$part);)+
            }
        }
    };
}
