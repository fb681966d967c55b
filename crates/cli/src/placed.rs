//! Arguments that belong to the one before them, told by their places on the command line.

use clap::ArgMatches;
use clap::error::ErrorKind;

/// The values of an argument with their places on the command line.
pub(crate) fn placed<T: Clone + Send + Sync + 'static>(
    matches: &ArgMatches,
    id: &str,
) -> impl Iterator<Item = (usize, T)> {
    let places = matches.indices_of(id).into_iter().flatten();
    let values = matches.get_many::<T>(id).into_iter().flatten().cloned();
    places.zip(values)
}

/// Gives each value of the argument `id` to the item placed before it, which keeps it in `slot`.
///
/// # Errors
/// `twice` where the item has one already, `alone` where none stands before it.
pub(crate) fn attach<I, T: Clone + Send + Sync + 'static>(
    matches: &ArgMatches,
    id: &str,
    items: &mut [(usize, I)],
    slot: impl Fn(&mut I) -> &mut Option<T>,
    twice: &str,
    alone: &str,
) -> Result<(), clap::Error> {
    for (place, value) in placed::<T>(matches, id) {
        let before = items.iter_mut().filter(|(of_item, _)| *of_item < place).max_by_key(|(place, _)| *place);
        let refusal = match before.map(|(_, item)| slot(item)) {
            Some(slot) if slot.is_none() => {
                *slot = Some(value);
                continue;
            }
            Some(_) => twice,
            None => alone,
        };
        return Err(clap::Error::raw(ErrorKind::ArgumentConflict, format!("{refusal}\n")));
    }
    Ok(())
}
