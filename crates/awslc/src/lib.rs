//! sealane-awslc
