//! Which engine a command tests.
use faultlab::process::seam::Program;

#[derive(Debug, clap::Args)]
pub(crate) struct Seam {
    /// Test another program: called with `driver DIR` and `dump DIR` behind these words; see PROCESS.md
    #[arg(long, value_name = "CMD")]
    driver: Option<String>,
    /// Commit through the page cache, also where the file system has direct writes
    #[arg(long, conflicts_with = "driver")]
    buffered: bool,
}

impl Seam {
    /// `threads` append to each log of this engine's own driver.
    pub(crate) fn program(&self, threads: usize) -> Result<Program, String> {
        self.on_path(threads, self.buffered)
    }

    /// One for each path of commits that is to be tried, with its name.
    pub(crate) fn programs(&self, threads: usize) -> Result<Vec<(&'static str, Program)>, String> {
        if self.driver.is_some() {
            return Ok(vec![("its own", self.program(threads)?)]);
        }
        let mut programs = vec![("buffered", self.on_path(threads, true)?)];
        if !self.buffered {
            programs.insert(0, ("direct", self.on_path(threads, false)?));
        }
        Ok(programs)
    }

    fn on_path(&self, threads: usize, buffered: bool) -> Result<Program, String> {
        match &self.driver {
            Some(line) => {
                Program::parse(line).ok_or_else(|| "--driver names no program".to_owned())
            }
            None => {
                let own = std::env::current_exe().map_err(|error| error.to_string())?;
                Ok(Program::own(&own, threads, buffered))
            }
        }
    }
}
