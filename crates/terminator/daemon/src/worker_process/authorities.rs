//! The answers of all services to authorities that validate us, whatever plan is served.

use proxy::options::{BackOptions, FrontTls, Options};

use static_files::challenge::HttpChallenges;
use tls::challenge::TlsChallenges;
use tls::self_signed::answer_validations;

use crate::certificates::Validations;

/// Cloning shares them.
#[derive(Clone, Default)]
pub(super) struct AuthorityAnswers {
    tls: TlsChallenges,
    http: HttpChallenges,
}

impl AuthorityAnswers {
    /// Answers so from now on, in every worker.
    ///
    /// # Errors
    /// A sentence: some answers cannot be made. All others are in place.
    pub(super) fn set(&self, validations: Validations) -> Result<(), String> {
        self.http.set(validations.http);
        let set = answer_validations(&self.tls, &validations.tls);
        set.map_err(|why| format!("no certificate can be made to answer an authority: {why}"))
    }

    /// Gives them to all services of a plan.
    pub(super) fn join(&self, plane: &mut Options) {
        for service in &mut plane.services {
            if let FrontTls::Terminate(terminated) = &mut service.front.tls {
                terminated.challenges = self.tls.clone();
            }
            service.front.challenges = self.http.clone();
            if let BackOptions::Files(files) = &mut service.back {
                files.serving.challenges = self.http.clone();
            }
        }
    }
}
