//! The server on standard input and output. What it has to say beside the protocol never goes to standard output.

use rmcp::ServiceExt as _;
use rmcp::service::ServerInitializeError;
use rmcp::transport::io::stdio_pipes;
use tokio::io::{AsyncRead, AsyncWrite};

use super::server::Server;

/// The reason for which a server stopped unexpectedly.
#[derive(Debug, thiserror::Error)]
#[error("the connection to the MCP client broke: {reason}")]
pub struct ServeError {
    reason: String,
}

/// Serves on standard input and output until the client closes it.
pub async fn serve_stdio(server: Server) -> Result<(), ServeError> {
    let (input, output) = stdio_pipes();
    serve(server, input, output).await
}

/// Serves one client until it closes the connection.
pub async fn serve<R, W>(server: Server, input: R, output: W) -> Result<(), ServeError>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let running = match server.serve((input, output)).await {
        Ok(running) => running,
        // Whoever asks nothing is owed nothing.
        Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => return Err(ServeError { reason: error.to_string() }),
    };
    match running.waiting().await {
        Ok(_) => Ok(()),
        Err(error) => Err(ServeError { reason: error.to_string() }),
    }
}
