//! The model to documents: attributes of groups as a version wants them.
