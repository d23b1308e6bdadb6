//! From a request to what it is answered with: which files are asked for, in which order. Owns
//! index files, siblings and hidden names; opens nothing, and writes no response.

use crate::encoding::{self, Coding};
use crate::media::Media;
use crate::options::Options;
use crate::questions::{Found, Question};
use crate::redirect;
use crate::request::{Method, Request};
use crate::status::Status;
use std::time::SystemTime;

/// No file is longer, since offsets are signed numbers (`off_t`). With it no length overflows.
const FILE_BYTES_MAX: u64 = i64::MAX as u64;

/// A request on the way to its answer.
#[derive(Debug)]
pub(crate) struct Search {
    pub(crate) request: Request,
    path: Vec<u8>,
    step: Step,
}

#[derive(Debug)]
enum Step {
    Named,
    /// The index file of that number.
    Index(usize),
    /// The folder itself, since it has no index file.
    Folder,
    /// The codings that are left to try for the file found before; the first is asked for.
    Sibling(Chosen, [Option<Coding>; Coding::ALL.len()]),
}

/// The file that is open, and how it is to be given.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chosen {
    pub(crate) bytes: u64,
    pub(crate) modified: SystemTime,
    pub(crate) identity: u64,
    pub(crate) media: Media,
    pub(crate) coding: Option<Coding>,
    /// Whether another client could be given another coding.
    pub(crate) varies: bool,
}

#[derive(Debug)]
pub(crate) enum Outcome {
    File(Chosen),
    /// The target is a folder, and was not written as one.
    Redirect,
    /// The request is to be made by https.
    Elsewhere,
    Refused(Status),
}

impl Search {
    /// The answer to a request that needs no look at files, if it is one.
    pub(crate) fn known_at_once(request: &Request, options: &Options) -> Option<Outcome> {
        if request.location.is_some() {
            let target = request.target.as_ref();
            let is_ours = target.is_some_and(|target| redirect::is_challenge(&target.path));
            return (!is_ours).then_some(Outcome::Elsewhere);
        }
        let status = match (request.method, &request.target) {
            (Method::NotAllowed, _) => Status::MethodNotAllowed,
            (Method::Unknown, _) => Status::NotImplemented,
            (_, None) => Status::NotFound,
            (_, Some(target)) if target.is_hidden() && !options.hidden => Status::NotFound,
            (_, Some(_)) => return None,
        };
        Some(Outcome::Refused(status))
    }

    /// Begins to look for what is not known at once.
    pub(crate) fn begin(request: Request, options: &Options) -> Self {
        let (path, step) = match &request.target {
            Some(target) if !target.folder => (target.path.clone(), Step::Named),
            Some(target) => folder_step(&target.path, 0, options),
            None => folder_step(&[], 0, options),
        };
        Self {
            request,
            path,
            step,
        }
    }

    pub(crate) fn question(&self) -> Question<'_> {
        match self.step {
            Step::Named | Step::Index(_) | Step::Folder => Question::Open(&self.path),
            Step::Sibling(..) => Question::Replace(&self.path),
        }
    }

    /// Takes the answer to the question. Nothing comes back if there is another one.
    pub(crate) fn answer(&mut self, found: Found, options: &Options) -> Option<Outcome> {
        if let Step::Sibling(original, codings) = self.step {
            return self.answer_sibling(original, codings, &found);
        }
        let missing = Some(match self.request.location {
            Some(_) => Outcome::Elsewhere,
            None => Outcome::Refused(Status::NotFound),
        });
        match (found, &self.step) {
            (
                Found::File {
                    bytes,
                    modified,
                    identity,
                },
                Step::Named | Step::Index(_),
            ) => {
                let media = Media::of(&self.path);
                self.choose(Chosen {
                    bytes: bytes.min(FILE_BYTES_MAX),
                    modified,
                    identity,
                    media,
                    coding: None,
                    varies: options.precompressed && media.compresses(),
                })
            }
            (Found::Folder, Step::Named) => Some(Outcome::Redirect),
            (Found::Folder | Found::Missing, Step::Index(number)) => {
                self.try_index(*number + 1, options);
                None
            }
            (Found::Folder, Step::Folder) => Some(Outcome::Refused(Status::Forbidden)),
            (Found::File { .. } | Found::Missing, Step::Named | Step::Folder) => missing,
            (Found::Forbidden, _) => Some(Outcome::Refused(Status::Forbidden)),
            (Found::Busy, _) => Some(Outcome::Refused(Status::ServiceUnavailable)),
            _ => Some(Outcome::Refused(Status::InternalServerError)),
        }
    }

    fn try_index(&mut self, number: usize, options: &Options) {
        let target = self.request.target.as_ref();
        let folder = target.map_or(&[][..], |target| &target.path);
        (self.path, self.step) = folder_step(folder, number, options);
    }

    /// A file is there: it is given, unless a sibling is.
    fn choose(&mut self, chosen: Chosen) -> Option<Outcome> {
        let field = self.request.fields.accept_encoding.as_deref();
        let codings = match field {
            Some(field) if chosen.varies => encoding::preferred(field),
            _ => [None; Coding::ALL.len()],
        };
        self.try_sibling(chosen, codings)
    }

    /// Asks for the next sibling, or gives the original.
    fn try_sibling(
        &mut self,
        original: Chosen,
        mut codings: [Option<Coding>; Coding::ALL.len()],
    ) -> Option<Outcome> {
        codings.sort_by_key(Option::is_none);
        let Some(coding) = codings[0] else {
            return Some(Outcome::File(original));
        };
        self.path.extend(coding.suffix().as_bytes());
        self.step = Step::Sibling(original, codings);
        None
    }

    fn answer_sibling(
        &mut self,
        original: Chosen,
        mut codings: [Option<Coding>; Coding::ALL.len()],
        found: &Found,
    ) -> Option<Outcome> {
        let coding = codings[0].take();
        if let Found::File {
            bytes,
            modified,
            identity,
        } = *found
        {
            return Some(Outcome::File(Chosen {
                bytes: bytes.min(FILE_BYTES_MAX),
                modified,
                identity,
                coding,
                ..original
            }));
        }
        let suffix_bytes = coding.map_or(0, |coding| coding.suffix().len());
        self.path.truncate(self.path.len() - suffix_bytes);
        self.try_sibling(original, codings)
    }
}

/// The index file of that number, or the folder itself after the last.
fn folder_step(folder: &[u8], number: usize, options: &Options) -> (Vec<u8>, Step) {
    match (options.index.get(number), folder) {
        (Some(name), []) => (name.as_bytes().to_vec(), Step::Index(number)),
        (Some(name), folder) => (
            [folder, b"/", name.as_bytes()].concat(),
            Step::Index(number),
        ),
        (None, []) => (b".".to_vec(), Step::Folder),
        (None, folder) => (folder.to_vec(), Step::Folder),
    }
}
