@group(0) @binding(3) var<storage, read_write> v13: array<f32>;
@group(0) @binding(2) var<storage, read> v9: array<u32>;
@group(0) @binding(1) var<storage, read> v5: array<vec2<f32>>;
@group(0) @binding(0) var<storage, read> v1: array<f32>;
struct info_st { scalars_usize: array<u32, 8>, static_meta: array<u32, 4> }
@group(0) @binding(4) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn sparse24_gemm_naive_f32_dense_in_out(@builtin(workgroup_id) v150: vec3<u32>, @builtin(local_invocation_id) v154: vec3<u32>) {
let v156 = &v13;
let v157 = &v9;
let v158 = &v5;
let v159 = &v1;
let v3 = u32(0);
let v17 = info_var.scalars_usize[0];
let v18 = info_var.scalars_usize[1];
let v23 = info_var.scalars_usize[6];
let v24 = info_var.scalars_usize[7];
let v151 = v150[0];
let v26 = u32(v151);
let v27 = u32(1);
let v152 = v150[1];
let v153 = u32(64);
let v34 = v152 * v153;
let v155 = v154[0];
let v36 = v34 + v155;
let v37 = u32(v36);
let v39 = v3 >= v23;
let v41 = v3 < v24;
let v42 = v39 && v41;
let v43 = v37 < v17;
let v44 = v42 && v43;
if v44 {
let v45 = v26 * v18;
let v46 = f32(1.0);
var<function> v146_store: f32;
let v146 = &v146_store;
*v146 = v46;
let v50 = v3 - v23;
let v51 = v23 * v18;
let v52 = f32(0.0);
var<function> v147_store: f32;
let v147 = &v147_store;
*v147 = v52;
for(var v57: u32 = v3; v57 < v18; v57 += v27) {
let v59 = v50 * v18;
let v60 = v59 + v57;
let v61 = u32(4);
let v62 = v37 / v61;
let v63 = u32(32);
let v64 = v17 + v63;
let v66 = v64 - v27;
let v68 = v66 / v63;
let v69 = v60 + v51;
let v70 = v69 * v68;
let v71 = u32(8);
let v72 = v62 / v71;
let v73 = v70 + v72;
let v77 = &(*v157)[v73];
let v78 = *v77;
let v80 = v62 % v71;
let v81 = u32(v80);
let v82 = u32(4);
let v83 = v82 * v81;
let v84 = v78 >> u32(v83);
let v85 = u32(15);
let v86 = v84 & v85;
let v88 = v17 / v61;
let v89 = v60 * v88;
let v90 = v89 + v62;
let v94 = &(*v158)[v90];
let v95 = *v94;
let v96 = v95[0];
let v106 = v95[1];
let v108 = v37 % v61;
let v109 = u32(v108);
let v110 = u32(2);
let v111 = v86 >> u32(v110);
let v112 = v111 == v109;
let v114 = select(v52, v106, v112);
let v115 = u32(3);
let v116 = v86 & v115;
let v117 = v116 == v109;
let v118 = select(v114, v96, v117);
let v119 = v45 + v57;
let v123 = &(*v159)[v119];
let v124 = *v123;
let v125 = *v147;
let v126 = fma(v124, v118, v125);
*v147 = v126;

}
var<function> v149_store: f32;
let v149 = &v149_store;
let v128 = *v147;
*v149 = v128;
let v129 = *v149;
let v132 = *v146;
let v133 = v132 * v129;
*v146 = v133;
let v134 = *v146;
let v135 = v26 * v17;
let v136 = v135 + v37;
let v140 = &(*v156)[v136];
*v140 = v134;

}
return;

}
