//! The runtime under the checker, in campaigns, and with damaged pools.

mod campaigns;
#[cfg(not(miri))]
mod damage;
mod explained;
mod literal;
mod serializable;
mod small;
