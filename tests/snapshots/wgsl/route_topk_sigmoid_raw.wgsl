@group(0) @binding(3) var<storage, read_write> v13: array<f32>;
@group(0) @binding(2) var<storage, read_write> v9: array<f32>;
@group(0) @binding(1) var<storage, read_write> v5: array<u32>;
@group(0) @binding(0) var<storage, read> v1: array<f32>;
struct info_st { scalars_usize: array<u32, 4>, static_meta: array<u32, 4> }
@group(0) @binding(4) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn route_topk_sigmoid_raw(@builtin(workgroup_id) v273: vec3<u32>, @builtin(num_workgroups) v275: vec3<u32>, @builtin(local_invocation_index) v282: u32) {
let v303 = &v13;
let v304 = &v9;
let v305 = &v5;
let v306 = &v1;
let v3 = u32(0);
let v17 = info_var.scalars_usize[0];
let v18 = info_var.scalars_usize[1];
let v19 = info_var.scalars_usize[2];
let v274 = v273[2];
let v205 = u32(v274);
let v276 = v275[1];
let v207 = u32(v276);
let v208 = v205 * v207;
let v277 = v275[0];
let v210 = u32(v277);
let v211 = v208 * v210;
let v278 = v273[1];
let v213 = u32(v278);
let v216 = v213 * v210;
let v217 = v211 + v216;
let v280 = v273[0];
let v219 = u32(v280);
let v220 = v217 + v219;
let v300 = u32(64);
let v223 = v220 * v300;
let v283 = v282;
let v225 = u32(v283);
let v226 = v223 + v225;
let v21 = v226 < v17;
if v21 {
let v23 = v226 * v18;
let v25 = v226 * v19;
let v26 = f32(-3.4028234663852886e38);
var<function> v188_store: f32;
let v188 = &v188_store;
*v188 = v26;
let v30 = u32(1);
for(var v31: u32 = v3; v31 < v18; v31 += v30) {
let v33 = v23 + v31;
let v37 = &(*v306)[v33];
let v38 = *v37;
let v39 = *v188;
let v40 = max(v39, v38);
*v188 = v40;

}
let v41 = f32(0.0);
var<function> v190_store: f32;
let v190 = &v190_store;
*v190 = v41;
for(var v46: u32 = v3; v46 < v18; v46 += v30) {
let v48 = v23 + v46;
let v52 = &(*v306)[v48];
let v53 = *v52;
let v54 = *v188;
let v55 = v53 - v54;
let v56 = exp(v55);
let v57 = *v190;
let v58 = v57 + v56;
*v190 = v58;

}
for(var v61: u32 = v3; v61 < v18; v61 += v30) {
var<function> v193_store: f32;
let v193 = &v193_store;
*v193 = v41;
let v66 = v23 + v61;
let v70 = &(*v306)[v66];
let v71 = *v70;
let v72 = abs(v71);
let v73 = -v72;
let v74 = exp(v73);
let v76 = v71 < v41;
let v77 = f32(1.0);
let v78 = select(v77, v74, v76);
let v80 = v77 + v74;
let v81 = v78 / v80;
*v193 = v81;
let v86 = &(*v303)[v66];
let v87 = *v193;
*v86 = v87;

}
let v88 = u32(4294967295);
var<function> v194_store: u32;
let v194 = &v194_store;
*v194 = v88;
var<function> v195_store: u32;
let v195 = &v195_store;
*v195 = v3;
var<function> v196_store: f32;
let v196 = &v196_store;
*v196 = v41;
var<function> v197_store: f32;
let v197 = &v197_store;
*v197 = v41;
for(var v102: u32 = v3; v102 < v19; v102 += v30) {
var<function> v199_store: u32;
let v199 = &v199_store;
*v199 = v18;
let v105 = u32(0);
var<function> v200_store: u32;
let v200 = &v200_store;
*v200 = v105;
for(var v110: u32 = v3; v110 < v18; v110 += v30) {
let v112 = v23 + v110;
let v116 = &(*v306)[v112];
let v117 = *v116;
let v118 = bitcast<u32>(v117);
let v119 = u32(2147483648);
let v120 = v118 == v119;
let v122 = select(v118, v105, v120);
let v123 = u32(31);
let v124 = v122 >> u32(v123);
let v125 = u32(1);
let v126 = v124 == v125;
let v127 = ~v122;
let v129 = v122 | v119;
let v130 = select(v129, v127, v126);
let v131 = u32(2147483647);
let v132 = v122 & v131;
let v133 = u32(2139095040);
let v134 = v132 > v133;
let v136 = select(v130, v105, v134);
let v137 = *v194;
let v138 = v136 < v137;
let v140 = v136 == v137;
let v141 = *v195;
let v142 = v110 > v141;
let v143 = v140 && v142;
let v144 = v138 || v143;
let v145 = *v199;
let v146 = v145 == v18;
let v147 = *v200;
let v148 = v136 > v147;
let v149 = v146 || v148;
var<function> v202_store: bool;
let v202 = &v202_store;
if v144 {
*v202 = v149;

} else {
let v151 = false;
*v202 = v151;

}
let v152 = *v202;
if v152 {
*v199 = v110;
*v200 = v136;

}

}
let v153 = *v199;
let v154 = u32(v153);
let v155 = v25 + v102;
let v159 = &(*v305)[v155];
*v159 = v154;
var<function> v203_store: f32;
let v203 = &v203_store;
*v203 = v41;
let v163 = *v199;
let v164 = v163 < v18;
if v164 {
let v165 = *v200;
*v194 = v165;
let v166 = *v199;
*v195 = v166;
let v167 = *v199;
let v168 = v23 + v167;
let v172 = &(*v303)[v168];
let v173 = *v172;
*v203 = v173;

}
let v178 = &(*v304)[v155];
let v179 = *v203;
*v178 = v179;
let v180 = *v197;
let v182 = v180 + v179;
*v197 = v182;

}

}
return;

}
