//! Which engine a command tests.
use faultlab::process::seam::Program;

#[derive(Debug, clap::Args)]
pub(crate) struct Seam {
    /// Test another program: called with `driver DIR` and `dump DIR` behind these words; see PROCESS.md
    #[arg(long, value_name = "CMD")]
    driver: Option<String>,
}

impl Seam {
    /// `threads` append to each log of this engine's own driver.
    pub(crate) fn program(&self, threads: usize) -> Result<Program, String> {
        match &self.driver {
            Some(line) => {
                Program::parse(line).ok_or_else(|| "--driver names no program".to_owned())
            }
            None => {
                let own = std::env::current_exe().map_err(|error| error.to_string())?;
                Ok(Program::own(&own, threads))
            }
        }
    }
}
