//! The 54 features of a symbol, from its completed bars and from market views after them.
//!
//! Features are updated incrementally, bar by bar. The same code serves environments, series and
//! live streams, so that they cannot differ.
//!
//! ```
//! use gym::features::{Bar, FeatureOptions, Features, View, registry};
//!
//! let mut features = Features::new(FeatureOptions::default());
//! features.push(&Bar { high: 101.0, low: 99.0, close: 100.0, volume: 5.0, trades: 2 });
//! let mut row = [0.0; 54];
//! features.write(&View::of_last(100.0), &mut row);
//!
//! assert_eq!(registry(false)[0].name, "f_mid_price");
//! assert_eq!(row[0], 100.0);
//! ```

mod atr;
mod bar;
mod clipping;
mod history;
mod input;
mod registry;
mod series;
mod set;
mod snapshot;
mod view;
mod volatility;

pub use bar::Bar;
pub use input::{BAR_COLUMNS, InputError, VIEW_COLUMNS};
pub use registry::{FeatureSpec, Group, registry};
pub use series::{SeriesError, series, series_slices};
pub use set::{FeatureOptions, Features};
pub use view::{NewsView, View};
