"""ONNX files as checked op graphs, read with the ``onnx`` package's parser alone."""
