//! Embeddings over HTTP: texts become vectors at any endpoint that speaks OpenAI's `/v1/embeddings`.
//!
//! Vectors leave here at length one, so that the product of two is the cosine of their angle. What they are compared with
//! is not known here.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use reqwest::header::HeaderMap;
use reqwest::{Client, Url};
use serde::Deserialize;
use serde_json::json;

use super::ModelError;
use super::breaker::CircuitBreaker;
use super::endpoint::{Endpoint, EndpointError};
use super::http::{ANSWER_BYTES_MAX, broken, client, guarded, refusal, text};
use super::retry::RetrySchedule;

/// The most numbers of a vector; pgvector takes no more.
const NUMBERS_MAX: usize = 16_000;

/// The settings of an embedding model beside its endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EmbeddingSettings {
    /// The numbers of a vector, where the model can make shorter ones.
    pub dimensions: Option<u64>,
    /// The most texts of one request.
    pub batch: usize,
    /// The longest time that a search waits for the vector of its words.
    pub search_timeout: Duration,
}

impl Default for EmbeddingSettings {
    fn default() -> Self {
        EmbeddingSettings { dimensions: None, batch: 32, search_timeout: Duration::from_secs(3) }
    }
}

/// An embedding model behind an endpoint. Clones share its connections and its breaker.
#[derive(Clone)]
pub struct Embeddings {
    shared: Arc<Shared>,
}

struct Shared {
    client: Client,
    url: Url,
    headers: HeaderMap,
    endpoint: Endpoint,
    settings: EmbeddingSettings,
    breaker: CircuitBreaker,
}

impl Embeddings {
    /// A client for an endpoint. Nothing is connected yet.
    pub fn new(endpoint: Endpoint, settings: EmbeddingSettings) -> Result<Self, EndpointError> {
        let url = endpoint.embeddings_address()?;
        let shared = Shared {
            client: client(&url, &endpoint.timeouts)?,
            headers: endpoint.header_map()?,
            breaker: CircuitBreaker::new(endpoint.trip),
            url,
            endpoint,
            settings: EmbeddingSettings { batch: settings.batch.max(1), ..settings },
        };
        Ok(Embeddings { shared: Arc::new(shared) })
    }

    /// The most texts of one request.
    pub fn batch(&self) -> usize {
        self.shared.settings.batch
    }

    /// The name of the space that its vectors are in: vectors of another model or size cannot be compared with them.
    pub(crate) fn space(&self) -> String {
        let model = &self.shared.endpoint.model;
        self.shared.settings.dimensions.map_or_else(|| model.clone(), |numbers| format!("{model}@{numbers}"))
    }

    /// Makes the vectors of texts, in their order, at most [`Embeddings::batch`] of them; asks again while that may help.
    pub async fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, ModelError> {
        let mut schedule = RetrySchedule::new(self.shared.endpoint.retry);
        let started = Instant::now();
        loop {
            let error = match self.attempt(texts, self.shared.endpoint.timeouts.whole).await {
                Ok(vectors) => return Ok(vectors),
                Err(error) => error,
            };
            let Some(wait) = schedule.wait(&error, started.elapsed()) else { return Err(error) };
            tracing::debug!(model = self.shared.endpoint.model, %error, ?wait, "the embedding model is asked again");
            tokio::time::sleep(wait).await;
        }
    }

    /// Makes the vector of the words of a search: once, and no longer than a search may wait. The breaker counts what took longer.
    pub async fn embed_words(&self, words: &str) -> Result<Vec<f32>, ModelError> {
        let vectors = self.attempt(&[words], self.shared.settings.search_timeout).await?;
        vectors.into_iter().next().ok_or_else(|| ModelError::Garbled("it holds no vector".into()))
    }

    async fn attempt(&self, texts: &[&str], within: Duration) -> Result<Vec<Vec<f32>>, ModelError> {
        guarded(&self.shared.endpoint, within, &self.shared.breaker, self.exchange(texts)).await
    }

    async fn exchange(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, ModelError> {
        let Shared { client, url, headers, endpoint, settings, .. } = &*self.shared;
        let mut body = json!({"model": endpoint.model, "input": texts, "encoding_format": "float"});
        if let Some(numbers) = settings.dimensions {
            body["dimensions"] = numbers.into();
        }
        let request = client.post(url.clone()).headers(headers.clone()).body(body.to_string());
        let response = request.send().await.map_err(|error| broken(endpoint, error))?;
        if !response.status().is_success() {
            return Err(refusal(response).await);
        }
        read(&text(response, ANSWER_BYTES_MAX).await?, texts.len())
    }
}

impl fmt::Debug for Embeddings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shared { endpoint, settings, breaker, .. } = &*self.shared;
        let mut f = f.debug_struct("Embeddings");
        f.field("endpoint", endpoint).field("settings", settings).field("breaker", breaker).finish()
    }
}

#[derive(Deserialize)]
struct Answer {
    data: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    index: Option<usize>,
    embedding: Vec<f32>,
}

/// Reads the vectors of an answer, in the order of the texts: as many as there were, and of one size.
fn read(answer: &str, wanted: usize) -> Result<Vec<Vec<f32>>, ModelError> {
    let garbled = |reason: String| Err(ModelError::Garbled(reason));
    // The parser's words name a place, never what stands there.
    let answer: Answer = match serde_json::from_str(answer) {
        Ok(answer) => answer,
        Err(error) => return garbled(format!("it is no list of embeddings: {error}")),
    };
    if answer.data.len() != wanted {
        return garbled(format!("it holds {} vectors for {wanted} texts", answer.data.len()));
    }
    let mut vectors: Vec<Vec<f32>> = vec![Vec::new(); wanted];
    for (at, item) in answer.data.into_iter().enumerate() {
        match vectors.get_mut(item.index.unwrap_or(at)) {
            Some(vector) if vector.is_empty() => *vector = item.embedding,
            _ => return garbled("its vectors are not numbered as the texts are".into()),
        }
    }
    let size = vectors.first().map_or(0, Vec::len);
    let is_usable = |vector: &Vec<f32>| vector.len() == size && vector.iter().all(|number| number.is_finite());
    if wanted > 0 && !(1..=NUMBERS_MAX).contains(&size) || !vectors.iter().all(is_usable) {
        return garbled(format!("its vectors are not all of one size from 1 to {NUMBERS_MAX}, or not of numbers"));
    }
    Ok(vectors.into_iter().map(at_length_one).collect())
}

/// A vector of the same direction and of length one. One without a direction gets the same as every other such.
fn at_length_one(mut vector: Vec<f32>) -> Vec<f32> {
    let length = vector.iter().map(|number| f64::from(*number).powi(2)).sum::<f64>().sqrt();
    if length == 0.0 {
        let equal = 1.0 / (vector.len() as f32).sqrt();
        vector.fill(equal);
    } else {
        vector.iter_mut().for_each(|number| *number = (f64::from(*number) / length) as f32);
    }
    vector
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_come_in_the_order_of_the_texts_and_at_length_one() {
        let answer = r#"{"object":"list","data":[{"index":1,"embedding":[0,2]},{"index":0,"embedding":[3,4]}]}"#;
        assert_eq!(read(answer, 2), Ok(vec![vec![0.6, 0.8], vec![0.0, 1.0]]));
        let unnumbered = r#"{"data":[{"embedding":[1,0,0,0]},{"embedding":[0,0,0,0]}]}"#;
        assert_eq!(read(unnumbered, 2), Ok(vec![vec![1.0, 0.0, 0.0, 0.0], vec![0.5; 4]]));
        assert_eq!(read(r#"{"data":[]}"#, 0), Ok(Vec::new()));
    }

    #[test]
    fn what_is_not_one_vector_for_each_text_is_garbled() {
        for (answer, wanted, words) in [
            ("<html>", 1, "no list of embeddings"),
            (r#"{"data":[]}"#, 1, "0 vectors for 1 texts"),
            (r#"{"data":[{"embedding":[1]},{"embedding":[1,2]}]}"#, 2, "not all of one size"),
            (r#"{"data":[{"embedding":[]}]}"#, 1, "not all of one size"),
            (r#"{"data":[{"embedding":[1e39]}]}"#, 1, ""),
            (r#"{"data":[{"index":0,"embedding":[1]},{"index":0,"embedding":[1]}]}"#, 2, "not numbered"),
            (r#"{"data":[{"index":9,"embedding":[1]}]}"#, 1, "not numbered"),
            (r#"{"data":[{"embedding":"AAAA"}]}"#, 1, "no list of embeddings"),
        ] {
            let error = read(answer, wanted).unwrap_err();
            assert!(matches!(&error, ModelError::Garbled(told) if told.contains(words)), "{answer}: {error}");
        }
    }
}
