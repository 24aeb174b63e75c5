-- Make the demo's schema. Returns nothing.
create schema rowbus_demo
