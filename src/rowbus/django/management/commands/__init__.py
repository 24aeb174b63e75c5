"""The commands of the app `rowbus.django`."""
