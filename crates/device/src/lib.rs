//! Nitro's devices.
