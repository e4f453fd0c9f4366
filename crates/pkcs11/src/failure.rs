//! What goes wrong, in words for operators: what failed, and what to do.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use cryptoki::error::{Error as CallError, RvError};

/// Why a key could not be opened.
#[derive(Clone, Debug)]
pub struct OpenError {
    /// As it is shown.
    pub(crate) uri: Box<str>,
    pub(crate) module: Box<Path>,
    pub(crate) failure: Failure,
}

impl OpenError {
    /// What failed.
    pub fn failure(&self) -> &Failure {
        &self.failure
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (uri, module) = (&self.uri, self.module.display());
        write!(f, "\"{uri}\" in PKCS #11 module {module}: {}", self.failure)
    }
}

impl std::error::Error for OpenError {}

/// What failed between here and a key in a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The module's file cannot be loaded.
    NotLoaded(Box<str>),
    /// A call of the module failed.
    Call(FailedCall),
    /// No token is what the URI says; what tokens there are.
    NoToken(Box<str>),
    /// Several tokens are what the URI says.
    SeveralTokens(Box<str>),
    /// The token wants a PIN, and there is none.
    PinNeeded,
    /// The token refused the PIN, or the PIN was not tried: which of them, and why.
    PinRefused(Box<str>),
    /// No private key is what the URI says; what keys there are.
    NoKey(Box<str>),
    /// Several private keys are what the URI says.
    SeveralKeys(Box<str>),
    /// The token wants the PIN for every single operation.
    AlwaysAuthenticate,
    /// The public key is nowhere in the token.
    NoPublicKey(Box<str>),
    /// A key of a kind that is not used here.
    KeyKind(Box<str>),
    /// The operation does not fit the key.
    Unsuited,
    /// What the token computed is not what the public key verifies.
    WrongResult,
    /// The module did not answer in time.
    NoAnswer(Duration),
    /// A thread could not be started.
    NoThread(Box<str>),
}

/// A call of a module that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedCall {
    /// `C_Sign`, or empty if the call never reached the module.
    function: Box<str>,
    /// `CKR_DEVICE_REMOVED`, or what else it is.
    code: Box<str>,
    value: Option<RvError>,
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        Self::Call(match error {
            CallError::Pkcs11(value, function) => FailedCall {
                function: format!("C_{function:?}").into(),
                code: code_name(value).into(),
                value: Some(value),
            },
            other => FailedCall {
                function: "".into(),
                code: other.to_string().into(),
                value: None,
            },
        })
    }
}

/// The name in the standard: `CKR_PIN_INCORRECT`. The variants are named after it.
fn code_name(value: RvError) -> String {
    match value {
        RvError::VendorDefined(code) => format!("the vendor's error {code:#x}"),
        RvError::UnknownErrorCode(code) => format!("the unknown error {code:#x}"),
        other => {
            let mut name = String::from("CKR");
            for letter in format!("{other:?}").chars() {
                if letter.is_ascii_uppercase() {
                    name.push('_');
                }
                name.push(letter.to_ascii_uppercase());
            }
            name
        }
    }
}

impl FailedCall {
    /// Whether a new session may help: the session, the token or the object is gone. A vendor's
    /// codes are among them, since those of network HSMs say that a connection is lost.
    fn is_loss(&self) -> bool {
        let Some(value) = self.value else {
            return false;
        };
        matches!(
            value,
            RvError::CryptokiNotInitialized
                | RvError::DeviceError
                | RvError::DeviceMemory
                | RvError::DeviceRemoved
                | RvError::FunctionFailed
                | RvError::GeneralError
                | RvError::KeyHandleInvalid
                | RvError::ObjectHandleInvalid
                | RvError::OperationActive
                | RvError::OperationNotInitialized
                | RvError::SessionClosed
                | RvError::SessionHandleInvalid
                | RvError::SlotIdInvalid
                | RvError::TokenNotPresent
                | RvError::TokenNotRecognized
                | RvError::UserNotLoggedIn
                | RvError::VendorDefined(_)
                | RvError::UnknownErrorCode(_)
        )
    }

    fn advice(&self) -> &'static str {
        match self.value {
            Some(RvError::CantLock | RvError::NeedToCreateThreads) => {
                "; the module cannot be used by several threads, which is needed here"
            }
            Some(RvError::DeviceRemoved | RvError::TokenNotPresent) => {
                "; look whether the device is there and reachable"
            }
            Some(RvError::KeyFunctionNotPermitted) => {
                "; the key needs CKA_SIGN, and CKA_DECRYPT for the RSA key exchange of TLS 1.2"
            }
            Some(RvError::SessionCount) => {
                "; the token has no session left: lower \"sessions\", or end other programs that \
                 use the token"
            }
            Some(RvError::MechanismInvalid) => {
                "; the token does not have the mechanism that the signature needs"
            }
            _ => "",
        }
    }
}

impl fmt::Display for FailedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.function.is_empty() {
            true => f.write_str(&self.code)?,
            false => write!(f, "{}() failed ({})", self.function, self.code)?,
        }
        f.write_str(self.advice())
    }
}

impl Failure {
    /// Whether a new session, or the module begun again, may help.
    pub(crate) fn is_loss(&self) -> bool {
        match self {
            Self::Call(call) => call.is_loss(),
            Self::NoToken(_) => true,
            _ => false,
        }
    }

    /// Whether there are no more sessions to be had.
    pub(crate) fn is_out_of_sessions(&self) -> bool {
        matches!(self, Self::Call(call) if call.value == Some(RvError::SessionCount))
    }

    /// Whether the mechanism is not one of the token's, or not with these parameters.
    pub(crate) fn is_about_mechanism(&self) -> bool {
        matches!(self, Self::Call(call) if matches!(
            call.value,
            Some(RvError::MechanismInvalid | RvError::MechanismParamInvalid | RvError::FunctionNotSupported)
        ))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotLoaded(why) => write!(
                f,
                "it cannot be loaded ({why}); install the module, or correct its path"
            ),
            Self::Call(call) => call.fmt(f),
            Self::NoToken(there) => write!(f, "no token matches the URI; {there}"),
            Self::SeveralTokens(there) => write!(
                f,
                "several tokens match the URI, and it must match one: add \"serial=\"; {there}"
            ),
            Self::PinNeeded => f.write_str(
                "the token wants a PIN: write it to a file that only root can read, and add \
                 \"?pin-source=file:/path/of/that\" to the URI",
            ),
            Self::PinRefused(why) => f.write_str(why),
            Self::NoKey(there) => write!(f, "no private key matches the URI; {there}"),
            Self::SeveralKeys(there) => write!(
                f,
                "several private keys match the URI, and it must match one: add \"id=\" or \
                 \"object=\"; {there}"
            ),
            Self::AlwaysAuthenticate => f.write_str(
                "the token wants the PIN again for every operation with this key \
                 (CKA_ALWAYS_AUTHENTICATE), which a server cannot do: use a key that was made \
                 without it (on a PIV card, one of another slot than 9c)",
            ),
            Self::NoPublicKey(id) => write!(
                f,
                "the private key has no public one: import its public key or its certificate into \
                 the token, with the same CKA_ID ({id})"
            ),
            Self::KeyKind(kind) => write!(
                f,
                "a key of kind {kind} is not supported; RSA, ECDSA on P-256, P-384 or P-521, and \
                 Ed25519 are"
            ),
            Self::Unsuited => f.write_str("the operation does not fit the key"),
            Self::WrongResult => f.write_str(
                "the result is not what the public key verifies: the private key in the token is \
                 another one, or the token computes wrong; it was not used",
            ),
            Self::NoAnswer(after) => write!(
                f,
                "the module has not answered within {after:?}; look whether the device is there \
                 and reachable"
            ),
            Self::NoThread(why) => write!(f, "a thread could not be started: {why}"),
        }
    }
}

impl std::error::Error for Failure {}

#[cfg(test)]
mod tests {
    use super::*;
    use cryptoki::context::Function;

    #[test]
    fn codes_have_the_names_of_the_standard() {
        let cases = [
            (RvError::PinIncorrect, "CKR_PIN_INCORRECT"),
            (RvError::RandomNoRng, "CKR_RANDOM_NO_RNG"),
            (RvError::FipsSelfTestFailed, "CKR_FIPS_SELF_TEST_FAILED"),
            (
                RvError::VendorDefined(0x8000_0007),
                "the vendor's error 0x80000007",
            ),
        ];
        for (value, name) in cases {
            assert_eq!(code_name(value), name);
        }
        let failure = Failure::from(CallError::Pkcs11(
            RvError::DeviceRemoved,
            Function::SignInit,
        ));
        assert_eq!(
            failure.to_string(),
            "C_SignInit() failed (CKR_DEVICE_REMOVED); look whether the device is there and \
             reachable"
        );
        assert!(failure.is_loss() && !failure.is_about_mechanism());
        let failure = Failure::from(CallError::NullFunctionPointer);
        assert!(!failure.is_loss());
    }
}
