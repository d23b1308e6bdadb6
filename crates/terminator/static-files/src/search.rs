//! Finds the answer to a request: which files to ask for, in which order. Handles index files,
//! compressed siblings and hidden names; opens nothing, and writes no response.

use std::time::SystemTime;

use crate::options::Options;
use crate::questions::{FileLookup, Question};
use crate::representation::{Coding, Media};
use crate::request::{Method, Request, Status};
use crate::{redirect, representation};

/// Longest possible file, because offsets are signed (`off_t`). Within it, no length overflows.
const FILE_BYTES_MAX: u64 = i64::MAX as u64;

/// A request on the way to its answer.
#[derive(Debug)]
pub(crate) struct FileSearch {
    pub(crate) request: Request,
    path: Vec<u8>,
    step: SearchStep,
}

#[derive(Debug)]
enum SearchStep {
    Named,
    /// Index file of that number.
    Index(usize),
    /// The folder itself, because it has no index file.
    Folder,
    /// Codings left to try for the file found before; the first one is being tried.
    Sibling(ChosenFile, [Option<Coding>; Coding::ALL.len()]),
}

/// The open file, and how it is to be sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChosenFile {
    pub(crate) bytes: u64,
    pub(crate) modified: SystemTime,
    pub(crate) identity: u64,
    pub(crate) media: Media,
    pub(crate) coding: Option<Coding>,
    /// Whether another client could get another coding.
    pub(crate) varies: bool,
}

#[derive(Debug)]
pub(crate) enum SearchOutcome {
    File(ChosenFile),
    /// The target is a folder, but was not written as one.
    Redirect,
    /// The request must be made by https.
    Elsewhere,
    Refused(Status),
    /// The answer to an authority that validates us.
    Challenge(String),
}

impl FileSearch {
    /// Returns the answer to a request if no file needs to be opened for it.
    pub(crate) fn known_at_once(request: &Request, options: &Options) -> Option<SearchOutcome> {
        let target = request.target.as_ref();
        if let Some(answer) = target.and_then(|target| options.challenges.answer(&target.path)) {
            return Some(SearchOutcome::Challenge(answer));
        }
        if request.location.is_some() {
            let is_ours = target.is_some_and(|target| redirect::is_challenge(&target.path));
            return (!is_ours).then_some(SearchOutcome::Elsewhere);
        }
        let status = match (request.method, &request.target) {
            (Method::NotAllowed, _) => Status::MethodNotAllowed,
            (Method::Unknown, _) => Status::NotImplemented,
            (_, None) => Status::NotFound,
            (_, Some(target)) if target.is_hidden() && !options.hidden => Status::NotFound,
            (_, Some(_)) => return None,
        };
        Some(SearchOutcome::Refused(status))
    }

    /// Starts to look for a file.
    pub(crate) fn begin(request: Request, options: &Options) -> Self {
        let (path, step) = match &request.target {
            Some(target) if !target.folder => (target.path.clone(), SearchStep::Named),
            Some(target) => folder_step(&target.path, 0, options),
            None => folder_step(&[], 0, options),
        };
        Self { request, path, step }
    }

    pub(crate) fn question(&self) -> Question<'_> {
        match self.step {
            SearchStep::Named | SearchStep::Index(_) | SearchStep::Folder => {
                Question::Open(&self.path)
            }
            SearchStep::Sibling(..) => Question::Replace(&self.path),
        }
    }

    /// Takes the answer to the question. Returns `None` if there is another question.
    pub(crate) fn answer(&mut self, found: FileLookup, options: &Options) -> Option<SearchOutcome> {
        if let SearchStep::Sibling(original, codings) = self.step {
            return self.answer_sibling(original, codings, &found);
        }
        let missing = Some(match self.request.location {
            Some(_) => SearchOutcome::Elsewhere,
            None => SearchOutcome::Refused(Status::NotFound),
        });
        match (found, &self.step) {
            (
                FileLookup::File { bytes, modified, identity },
                SearchStep::Named | SearchStep::Index(_),
            ) => {
                let media = Media::of(&self.path);
                self.choose(ChosenFile {
                    bytes: bytes.min(FILE_BYTES_MAX),
                    modified,
                    identity,
                    media,
                    coding: None,
                    varies: options.precompressed && media.compresses(),
                })
            }
            (FileLookup::Folder, SearchStep::Named) => Some(SearchOutcome::Redirect),
            (FileLookup::Folder | FileLookup::Missing, SearchStep::Index(number)) => {
                self.try_index(*number + 1, options);
                None
            }
            (FileLookup::Folder, SearchStep::Folder) => {
                Some(SearchOutcome::Refused(Status::Forbidden))
            }
            (
                FileLookup::File { .. } | FileLookup::Missing,
                SearchStep::Named | SearchStep::Folder,
            ) => missing,
            (FileLookup::Forbidden, _) => Some(SearchOutcome::Refused(Status::Forbidden)),
            (FileLookup::Busy, _) => Some(SearchOutcome::Refused(Status::ServiceUnavailable)),
            _ => Some(SearchOutcome::Refused(Status::InternalServerError)),
        }
    }

    fn try_index(&mut self, number: usize, options: &Options) {
        let target = self.request.target.as_ref();
        let folder = target.map_or(&[][..], |target| &target.path);
        (self.path, self.step) = folder_step(folder, number, options);
    }

    /// Chooses a file that was found, unless it has a sibling that the client prefers.
    fn choose(&mut self, chosen: ChosenFile) -> Option<SearchOutcome> {
        let field = self.request.fields.accept_encoding.as_deref();
        let codings = match field {
            Some(field) if chosen.varies => representation::preferred(field),
            _ => [None; Coding::ALL.len()],
        };
        self.try_sibling(chosen, codings)
    }

    /// Asks for the next sibling, or returns the original.
    fn try_sibling(
        &mut self,
        original: ChosenFile,
        mut codings: [Option<Coding>; Coding::ALL.len()],
    ) -> Option<SearchOutcome> {
        codings.sort_by_key(Option::is_none);
        let Some(coding) = codings[0] else {
            return Some(SearchOutcome::File(original));
        };
        self.path.extend(coding.suffix().as_bytes());
        self.step = SearchStep::Sibling(original, codings);
        None
    }

    fn answer_sibling(
        &mut self,
        original: ChosenFile,
        mut codings: [Option<Coding>; Coding::ALL.len()],
        found: &FileLookup,
    ) -> Option<SearchOutcome> {
        let coding = codings[0].take();
        if let FileLookup::File { bytes, modified, identity } = *found {
            return Some(SearchOutcome::File(ChosenFile {
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

/// Returns the path of the index file of that number, or of the folder itself after the last.
fn folder_step(folder: &[u8], number: usize, options: &Options) -> (Vec<u8>, SearchStep) {
    match (options.index.get(number), folder) {
        (Some(name), []) => (name.as_bytes().to_vec(), SearchStep::Index(number)),
        (Some(name), folder) => {
            ([folder, b"/", name.as_bytes()].concat(), SearchStep::Index(number))
        }
        (None, []) => (b".".to_vec(), SearchStep::Folder),
        (None, folder) => (folder.to_vec(), SearchStep::Folder),
    }
}
