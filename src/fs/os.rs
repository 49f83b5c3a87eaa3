//! stub
/// stub
#[derive(Debug)]
pub struct OsFileSystem;
