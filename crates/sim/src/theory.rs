//! What queueing theory says of a sample path: recursions in whole nanoseconds, and the error of a simulated
//! mean by batch means. The closed forms are `stats::queueing`.

use plimsoll_core::{Span, Timestamp};

/// Lindley's recursion (Lindley, The theory of queues with a single server, 1952): the response of
/// request n at a first-come, first-served server, from arrivals and service times.
///
/// W(n+1) = max(0, W(n) + S(n) − T(n)), T(n) being the time from arrival n to n + 1; the response
/// is W + S.
pub fn lindley(arrivals: &[Timestamp], services: &[Span]) -> Vec<Span> {
    let mut wait = 0i128;
    let mut responses = Vec::with_capacity(arrivals.len());
    for (n, service) in services.iter().enumerate().take(arrivals.len()) {
        let service = i128::from(service.as_ns());
        responses.push(Span::from_ns((wait + service) as u64));
        if let Some(next) = arrivals.get(n + 1) {
            let gap = i128::from(next.as_ns()) - i128::from(arrivals[n].as_ns());
            wait = (wait + service - gap).max(0);
        }
    }
    responses
}

/// The recursion of Kiefer and Wolfowitz (On the theory of queues with many servers, 1955) for `c`
/// servers: the vector of the servers' remaining work, sorted, loses the gap between arrivals and
/// gains the service time in its least element.
pub fn kiefer_wolfowitz(arrivals: &[Timestamp], services: &[Span], c: usize) -> Vec<Span> {
    let mut work = vec![0i128; c];
    let mut responses = Vec::with_capacity(arrivals.len());
    for (n, service) in services.iter().enumerate().take(arrivals.len()) {
        let service = i128::from(service.as_ns());
        responses.push(Span::from_ns((work[0] + service) as u64));
        work[0] += service;
        if let Some(next) = arrivals.get(n + 1) {
            let gap = i128::from(next.as_ns()) - i128::from(arrivals[n].as_ns());
            work.iter_mut().for_each(|left| *left = (*left - gap).max(0));
        }
        work.sort_unstable();
    }
    responses
}

/// Mean and standard error of a statistic over `batches` equal consecutive parts of `values`; with
/// parts much longer than the queue's memory their statistics are nearly independent.
pub fn batch_means(values: &[f64], batches: usize, statistic: impl Fn(&mut [f64]) -> f64) -> (f64, f64) {
    let length = values.len() / batches;
    let parts: Vec<f64> =
        values.chunks_exact(length).take(batches).map(|part| statistic(&mut part.to_vec())).collect();
    let mean = parts.iter().sum::<f64>() / parts.len() as f64;
    let variance = parts.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / (parts.len() - 1) as f64;
    (mean, (variance / parts.len() as f64).sqrt())
}

/// The mean of a part, for [`batch_means`].
pub fn mean(part: &mut [f64]) -> f64 {
    part.iter().sum::<f64>() / part.len() as f64
}

/// The nearest-rank q-quantile of a part, for [`batch_means`].
pub fn quantile(q: f64) -> impl Fn(&mut [f64]) -> f64 {
    move |part| {
        part.sort_unstable_by(f64::total_cmp);
        part[((q * part.len() as f64).ceil() as usize).max(1) - 1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_server_of_kiefer_and_wolfowitz_is_lindleys() {
        let arrivals: Vec<Timestamp> = [0, 3, 4, 20, 21].map(Timestamp::from_ns).to_vec();
        let services: Vec<Span> = [5, 5, 1, 2, 9].map(Span::from_ns).to_vec();
        let responses = lindley(&arrivals, &services);
        assert_eq!(responses, [5, 7, 7, 2, 10].map(Span::from_ns));
        assert_eq!(kiefer_wolfowitz(&arrivals, &services, 1), responses);
        // Two servers: the third request waits for the first to end at 5.
        assert_eq!(kiefer_wolfowitz(&arrivals, &services, 2), [5, 5, 2, 2, 9].map(Span::from_ns));
    }
}
