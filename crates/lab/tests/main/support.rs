//! Running the program in a folder of its own.

nitro_testkit::place_of!("nitro-lab");
